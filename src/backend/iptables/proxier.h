// Mode iptables for one IP family: keeps the kernel in line with snapshots.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/iptables/commit.h"
#include "backend/iptables/connections.h"
#include "backend/iptables/diff.h"
#include "backend/iptables/look_pace.h"
#include "backend/iptables/rules.h"
#include "base/result.h"

namespace iptables {

// What the configuration and the node say; fixed while the process runs.
struct Settings {
  net::Family family = net::Family::V4;
  std::string node_name;
  net::IpAddr node_ip;       // loopback when undetermined
  bool external_ips = true;  // feature gate AllowServiceExternalIPs
  uint32_t masquerade_mark = 1U << 14;
  bool masquerade_all = false;
  bool localhost_node_ports = true;  // as configured
  plan::LocalTraffic local_traffic;
  bool node_ports_everywhere = true;
  std::vector<net::Cidr> node_port_cidrs;  // of this family, if not everywhere

  // Localhost node ports need IPv4, the setting, and node ports that are open on loopback.
  bool serves_localhost() const;
};

// What this machine can do.
struct Capabilities {
  bool random_fully = true;
  bool tcp_liberal = false;   // conntrack accepts packets outside of the TCP window
  bool count_invalid = true;  // nfacct counters are there
  bool count_localhost = true;
};

// As far as it can be told without root; what cannot be told is assumed to be there.
Capabilities likely_capabilities(net::Family family);

RuleOptions rule_options(const Settings& settings, const Capabilities& capabilities);
plan::Context plan_context(const Settings& settings, const model::Snapshot& snapshot);
// Reads the interfaces if node ports are restricted to some addresses.
base::Result<NodePortAddresses> node_port_addresses(const Settings& settings);

inline constexpr const char* kInvalidCounter = "ct_state_invalid_dropped_pkts";
inline constexpr const char* kLocalhostCounter = "localhost_nps_accepted_pkts";

class Proxier : public backend::Backend {
 public:
  explicit Proxier(Settings settings);

  // Worth telling: a message, and in `err` why, if something is missing.
  struct Notice {
    std::string message;
    std::string err{};
  };
  // Looks at what the machine can do, changing nothing.
  // REQUIRES: called once, before the first sync or preview.
  std::vector<Notice> probe();

  net::Family family() const override { return settings_.family; }
  base::Result<backend::SyncReport> sync(const backend::SyncRequest& request) override;
  bool flushed(bool thorough) override;
  base::Result<std::vector<backend::PortConnections>> count_connections(
      const model::Snapshot& snapshot) override;

  // The next full sync's transaction, without committing it. Reads the kernel.
  base::Result<Transaction> preview(const model::Snapshot& snapshot);

 private:
  bool drifted(std::chrono::steady_clock::time_point now);
  void ensure_counters(backend::SyncReport& report);
  NodePortAddresses node_ports_or_none(backend::SyncReport& report) const;
  // Reads the kernel and says what to change; fills in the report.
  base::Result<Transaction> full_transaction(const model::Snapshot& snapshot,
                                             const SyncInput& input, Stale stale,
                                             backend::SyncReport& report);
  // What follows from the ledger alone.
  Transaction partial_transaction(const backend::SyncRequest& request, const SyncInput& input,
                                  backend::SyncReport& report);
  // The commit of `transaction`, and for a full sync a second try that deletes no chain.
  base::Result<> commit(const model::Snapshot& snapshot, const SyncInput& input,
                        Transaction transaction, backend::SyncReport& report);

  Settings settings_;
  Programs programs_;
  Capabilities capabilities_;
  bool counters_supported_ = false;
  bool ledger_valid_ = false;  // false: what the kernel holds is not known
  Ledger ledger_;
  LookPace look_pace_;
  ConnectionTotals connections_;
};

}  // namespace iptables
