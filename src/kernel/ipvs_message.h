// What is said about virtual and real servers over netlink, without a socket. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "kernel/ipvs.h"
#include "kernel/netlink.h"

namespace kernel {

// The header of generic netlink, behind netlink's own.
nlmsghdr* put_generic(nlmsghdr* header, uint8_t command, uint8_t version);

// A virtual server with all that there is to say about it, or what names it only.
void put_server(nlmsghdr* header, const VirtualServer& server);
void put_server(nlmsghdr* header, const ServerKey& server);
void put_real_server(nlmsghdr* header, const RealServer& real);

// As the kernel tells of them. Nothing for what we have no business with: servers that are named by a firewall mark,
// other protocols, and what is not whole.
std::optional<VirtualServer> decode_server(const nlmsghdr& message);
// Kernels before 3.18 do not tell the family of a real server: it is that of the virtual one.
std::optional<RealServerState> decode_real_server(const nlmsghdr& message, net::Family family);

}  // namespace kernel
