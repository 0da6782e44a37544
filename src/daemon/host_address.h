// The address of this node that mode userspace leads the node's own traffic to.
#pragma once

#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "daemon/node_facts.h"
#include "kernel/addresses.h"
#include "net/ip.h"

namespace proxyd {

// The interfaces that default routes lead through, in the kernel's order. `table` is what /proc/net/route has or, for
// IPv6, /proc/net/ipv6_route; it may be anything.
std::vector<std::string> default_route_interfaces(net::Family family, std::istream& table);

// Of the interfaces that are up: an address of the first one with a default route, as v1.25 chose it. Where there is
// none, `node_ip` if an interface has it, else any address that others may know. Pure.
std::optional<net::IpAddr> choose_host_address(
    net::Family family, const std::vector<std::string>& default_interfaces,
    const std::vector<kernel::InterfaceAddress>& addresses, const net::IpAddr& node_ip);

// bindAddress, if it is one of this family; else that of this machine. NotFound: there is none.
base::Result<net::IpAddr> host_address(const config::Config& config, const NodeFacts& node,
                                       net::Family family);

}  // namespace proxyd
