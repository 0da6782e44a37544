// Which entries of session affinity still hold. Pure.
//
// Packets make entries by themselves. Nobody but us takes back those that lead to an endpoint which a front end has lost,
// or shortens them when the time-out of a Service is.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "backend/nftables/elements.h"

namespace nftables {

// An entry as the kernel has it.
struct AffinityEntry {
  std::vector<uint8_t> key;       // front end and client
  std::vector<uint8_t> endpoint;  // as in the values of the map
  std::chrono::milliseconds timeout{};
  std::chrono::milliseconds left{};
};

class AffinityJudge {
 public:
  // `everything`: entries of front ends that were never added are stale.
  AffinityJudge(net::Family family, bool everything) : family_(family), everything_(everything) {}

  // The elements of one front end as they are now; none if it is gone. With policy Local there are two lists of
  // endpoints: traffic of this node itself uses the one, clients from outside the other. Who a client is cannot be told by
  // its entry, so it holds if either list has the endpoint; but when the policy has just become Local, clients from outside
  // have entries to endpoints of other nodes, and only the node's own list counts.
  enum class Lists : uint8_t { Both, LocalOnly };
  void add(const FrontEnd& front, std::span<const Element> elements, Lists lists = Lists::Both);

  bool idle() const { return fronts_.empty() && !everything_; }

  struct Ruling {
    bool keep = true;
    std::optional<std::chrono::milliseconds> timeout{};  // if it has to be another
    std::chrono::milliseconds left{};                    // of that
  };
  Ruling judge(const AffinityEntry& entry) const;

 private:
  struct Now {
    std::chrono::milliseconds timeout{};  // 0: no session affinity
    std::set<Bytes> endpoints;
  };
  const Now* find(std::span<const uint8_t> key) const;

  net::Family family_;
  bool everything_;
  std::map<Bytes, Now> fronts_;  // by key of the front end; node ports have a shorter one
};

}  // namespace nftables
