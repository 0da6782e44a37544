// Which addresses of this node matter to Services. Pure.
#pragma once

#include <vector>

#include "backend/ipvs/contents.h"
#include "kernel/link.h"
#include "net/ip.h"

namespace ipvs {

// Does an address of this kind count? Those of loopback and IPv6's link-local ones do not.
bool counts(const net::IpAddr& ip);

// `ours` is our device: its addresses are Services', not the node's. Without `cidrs` node ports are open on all of the
// node's addresses.
NodeAddresses node_addresses(const std::vector<kernel::DeviceAddress>& all, unsigned ours,
                             const std::vector<net::Cidr>& node_port_cidrs);
// The addresses of our device that count.
std::vector<net::IpAddr> bound_addresses(const std::vector<kernel::DeviceAddress>& all,
                                         unsigned ours);

}  // namespace ipvs
