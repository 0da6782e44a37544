// Which TCP endpoints no Service has any more, and which connections were made to them through a Service. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "model/service_map.h"
#include "net/flow.h"
#include "net/ip.h"

namespace plan {

// An address and a TCP port.
struct TcpEnd {
  net::IpAddr ip;
  uint16_t port = 0;

  bool operator==(const TcpEnd&) const = default;
};
struct TcpEndHash {
  size_t operator()(const TcpEnd& end) const noexcept;
};

// One Service from one snapshot to the next; null where it is not there.
struct EntryChange {
  model::ServiceEntryPtr before;
  model::ServiceEntryPtr now;
};

// The Services that differ between two snapshots: of those named, or of all.
std::vector<EntryChange> changes(const model::ServiceMap& before, const model::ServiceMap& now,
                                 const std::set<model::ServiceKey>& among);
std::vector<EntryChange> changes(const model::ServiceMap& before, const model::ServiceMap& now);

// How many times each endpoint of one family is listed by slices of Services that are proxied. Ready or not makes no
// difference: an endpoint is gone when it is listed no more.
class EndpointUses {
 public:
  explicit EndpointUses(net::Family family) : family_(family) {}

  // Returns the endpoints that were in use before, and are not any more.
  std::vector<TcpEnd> update(const std::vector<EntryChange>& changes);

  bool contains(const TcpEnd& endpoint) const { return counts_.contains(endpoint); }
  size_t size() const { return counts_.size(); }

 private:
  net::Family family_;
  std::unordered_map<TcpEnd, uint32_t, TcpEndHash> counts_;
};

// The addresses and ports by which clients reach Services over TCP. Tells connections that were redirected for a
// Service from those that somebody else redirected, to a hostPort for one.
class FrontEnds {
 public:
  void add(const model::ServiceEntry& entry);

  // Was the connection made to one of them, and led elsewhere? Node ports are ports of the addresses `here`.
  bool redirected(const net::Flow& flow, std::span<const net::IpAddr> here) const;

 private:
  std::unordered_set<TcpEnd, TcpEndHash> addresses_;
  std::unordered_set<uint16_t> node_ports_;
};

}  // namespace plan
