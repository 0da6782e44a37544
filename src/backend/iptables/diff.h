// What has to change in the kernel so that it holds what the plans ask for. Pure.
//
// Two ways lead to a Transaction. diff_full() compares with what a dump of the kernel showed and
// makes a new Ledger. diff_partial() compares with the Ledger, and touches only dirty Services:
// its cost does not depend on how many others there are, unless a front end changed and a shared
// chain must be written anew.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/iptables/dump.h"
#include "backend/iptables/rules.h"
#include "backend/iptables/skeleton.h"
#include "backend/iptables/transaction.h"
#include "model/store.h"
#include "plan/plan.h"

namespace iptables {

// From this many endpoints on, rules of endpoints carry no comments.
inline constexpr size_t kLargeCluster = 1000;

// The lines of one Service in the shared chains, in one string.
class SharedLines {
 public:
  SharedLines() = default;
  explicit SharedLines(const std::array<std::string, kSharedChains>& lines);
  std::string_view lines(SharedChain chain) const;
  bool operator==(const SharedLines&) const = default;

 private:
  std::string text_;
  std::array<uint32_t, kSharedChains> ends_{};
};

// What we know to be in the kernel for one Service.
struct ServiceRecord {
  struct Mark {
    ChainName name;
    uint64_t digest = 0;
  };
  SharedLines shared;
  std::vector<Mark> chains;
  uint32_t endpoints = 0;  // of all its ports, ready or not
  RuleCounts rules{};
};

// What we know to be in the kernel, as of the last commit, in one family.
struct Ledger {
  std::map<model::ServiceKey, ServiceRecord> services;
  std::string tail;      // of KUBE-SERVICES
  size_t endpoints = 0;  // sum over services
  RuleCounts rules{};    // all of ours, but for jumps from built-in chains

  bool large() const { return endpoints > kLargeCluster; }
};

struct Observed {
  std::array<ObservedTable, kTables.size()> tables;
  ObservedTable& operator[](Table table) { return tables[static_cast<size_t>(table)]; }
  const ObservedTable& operator[](Table table) const { return tables[static_cast<size_t>(table)]; }
};

// Does the kernel hold this chain with these rules?
bool holds(const ObservedTable& table, const FixedChain& chain);

// What all Services have in common.
struct SyncInput {
  const RuleOptions& options;
  const NodePortAddresses& node_ports;
};

// How many chains and jumps of ours the kernel holds in another form than we have written them, or not at all: somebody
// else has changed them.
size_t count_drift(const RuleOptions& options, const Ledger& ledger, const Observed& observed);

// What becomes of chains of Services that are no longer wanted.
enum class Stale : uint8_t {
  Delete,
  Empty,  // for the case that a rule of somebody else jumps to one: the kernel refuses to delete it
};

// Brings the kernel from `observed` to `plans`, which are all there are, and `ledger` with it.
Transaction diff_full(const SyncInput& input, std::vector<plan::ServicePlan> plans,
                      Observed observed, Ledger& ledger, Stale stale = Stale::Delete);

// Brings the kernel from `ledger` to where the Services of `plans` are as these say, and `ledger` with it; one
// without ports goes. If the commit fails the ledger is wrong: observe and diff_full().
Transaction diff_partial(const SyncInput& input, const std::vector<plan::ServicePlan>& plans,
                         Ledger& ledger);

}  // namespace iptables
