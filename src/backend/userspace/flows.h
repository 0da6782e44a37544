// Which tracked UDP connections do not go where the rules lead now. Pure.
//
// Rules are looked at for the first packet of a connection only; a client that goes on sending would never notice that
// its portal has moved to another proxy port, or has come or gone.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "backend/userspace/portals.h"
#include "net/flow.h"

namespace userspace {

class PortalFlows {
 public:
  // `node` has the addresses of this node, sorted: node ports are ports of these.
  explicit PortalFlows(std::vector<net::IpAddr> node) : node_(std::move(node)) {}

  void add_current(const Portal& portal) { add(current_, portal); }
  void add_gone(const Portal& portal) { add(gone_, portal); }

  // Stale is what goes to a portal and elsewhere than to its proxy port; or to one that is gone, and to the port that
  // was behind it.
  bool stale(const net::Flow& flow) const;
  // No flow at all is stale.
  bool idle() const { return current_.empty() && gone_.empty(); }

 private:
  struct Place {
    net::IpAddr ip;
    uint16_t port = 0;

    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const;
  };
  // Proxy ports by address and port. A node port stands under the unspecified address of IPv4.
  using Table = std::unordered_multimap<Place, uint16_t, PlaceHash>;

  static void add(Table& table, const Portal& portal);
  struct Found {
    bool any = false;          // a portal
    bool leads_there = false;  // one whose proxy port answers
  };
  Found find(const Table& table, const net::Flow& flow) const;

  std::vector<net::IpAddr> node_;
  Table current_;
  Table gone_;
};

}  // namespace userspace
