// Which tracked UDP connections lead nowhere. Pure.
//
// A UDP client that goes on sending keeps its entry alive for ever, so an entry that leads to an endpoint which
// is gone, or that was made while there was no endpoint, must be deleted for the next packet to be looked at anew.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/store.h"
#include "net/flow.h"
#include "plan/plan.h"

namespace plan {

// Has the Service a UDP port in this family?
bool has_udp(const model::ServiceEntry& entry, const Context& context);

// Knows the UDP front ends of one family: cluster, load-balancer and external IPs with their ports, and node ports.
//
// An entry to one of them is stale if it leads elsewhere than to a serving or ready endpoint. Traffic policies and
// topology do not count: they choose for new connections. While there is no such endpoint, an entry is stale if
// it was redirected, so that the next packet is refused; and an entry to a front end that is gone is stale if
// it leads to what stood behind it. A front end that several Services claim leads to the endpoints of all of them.
class FlowJudge {
 public:
  // `before` is the snapshot that flows were last judged by; null at start, when nothing is known about front ends
  // that are gone. `local_addresses` are those of this node on which node ports are served: to any other address, the
  // port is nobody's business.
  FlowJudge(const model::Snapshot* before, const model::Snapshot& now, const Context& context,
            std::vector<net::IpAddr> local_addresses);

  // Does not allocate: there may be a million flows.
  bool stale(const net::Flow& flow) const;

  // No flow at all is stale; the table need not be read.
  bool idle() const { return now_.empty() && gone_.empty(); }

 private:
  struct Place {
    net::IpAddr ip;
    uint16_t port = 0;

    auto operator<=>(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const;
  };
  using Places = std::vector<Place>;
  // By address and port, to an index into endpoints_. A node port stands under the unspecified address.
  using FrontEnds = std::unordered_multimap<Place, uint32_t, PlaceHash>;

  enum class Which : uint8_t { Usable, All };
  static Places endpoints_of(const model::ServiceEntry& entry, const model::ServicePort& port,
                             Which which, net::Family family);
  static Places front_ends_of(const model::Service& service, const model::ServicePort& port,
                              const Context& context);

  void add_current(const model::ServiceEntry& entry, const Context& context);
  void add_gone(const model::ServiceEntry& entry, const Context& context);

  // The destination itself or, on an address of this node, the node port.
  FrontEnds::const_iterator find(const FrontEnds& table, const Place& destination) const;

  struct Behind {
    bool any = false;      // is there an endpoint?
    bool answers = false;  // is it one of them that answers?
  };
  // Nothing: the flow goes to no front end of the table.
  std::optional<Behind> look_behind(const FrontEnds& table, const net::Flow& flow) const;

  FrontEnds now_;
  FrontEnds gone_;                            // those of `before` that are not in now_
  std::vector<Places> endpoints_;             // each sorted
  std::vector<net::IpAddr> local_addresses_;  // sorted
};

}  // namespace plan
