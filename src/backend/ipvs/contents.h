// What Services put into the kernel in mode ipvs. Pure: plans in, values out.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/ipvs/layout.h"
#include "kernel/ipset.h"
#include "kernel/ipvs.h"
#include "net/ip.h"
#include "plan/plan.h"

namespace ipvs {

// The addresses of this node that matter to Services, of one family. Both sorted, each address once.
struct NodeAddresses {
  std::vector<net::IpAddr>
      own;  // of all devices but ours; without loopback and IPv6 link-local ones
  std::vector<net::IpAddr> node_ports;  // where node ports are open

  bool operator==(const NodeAddresses&) const = default;
};

struct Entry {
  SetId set{};
  kernel::SetEntry entry;

  auto operator<=>(const Entry&) const = default;
};

// A load-balancer address that processes of this node must not use: their source would be that very address.
struct Guard {
  net::IpAddr ip;
  net::Protocol protocol = net::Protocol::Tcp;
  uint16_t port = 0;

  auto operator<=>(const Guard&) const = default;
};

using Targets = std::vector<kernel::RealServer>;  // sorted, each address and port once

struct Front {
  kernel::VirtualServer server;
  uint32_t targets = 0;  // which of ServiceContents::targets

  bool operator==(const Front&) const = default;
};

// All that one Service needs. A front end, an entry or an address may be claimed by other Services as well.
struct ServiceContents {
  std::vector<Front> fronts;     // by key; each key once
  std::vector<Targets> targets;  // fronts share them
  std::vector<Entry>
      entries;  // sorted, each once; without those of IpvsIps, which follow from `bound`
  std::vector<net::IpAddr> bound;  // to the device; sorted, each once
  std::vector<Guard> guards;       // sorted, each once
  uint32_t endpoints = 0;          // of all ports, ready or not

  bool empty() const {
    return fronts.empty() && entries.empty() && bound.empty() && guards.empty();
  }
  bool operator==(const ServiceContents&) const = default;
};

// `scheduler` is the Service's own or that of the options.
ServiceContents contents_of(const plan::ServicePlan& plan, const std::string& scheduler,
                            const NodeAddresses& node);

}  // namespace ipvs
