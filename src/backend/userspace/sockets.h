// The sockets that fronts and claims have. Blocking calls that return at once; used on the sync thread.
#pragma once

#include <cstdint>
#include <functional>

#include "base/fd.h"
#include "base/result.h"
#include "net/ip.h"

namespace userspace {

// Where a socket is bound.
struct Place {
  net::Protocol protocol = net::Protocol::Tcp;  // TCP or UDP
  net::IpAddr ip;  // unspecified: all addresses of its family, and of no other
  uint16_t port = 0;

  auto operator<=>(const Place&) const = default;
};

// A socket for a front. It keeps its port whether it serves or refuses. Exists: the port is in use.
// REQUIRES: a port.
base::Result<base::Fd> bind_front(const Place& place);
// A socket that does nothing but keep others from having the place. Whoever comes is refused.
base::Result<base::Fd> bind_claim(const Place& place);
// A port that is free right now.
base::Result<uint16_t> pick_port(net::Protocol protocol, const net::IpAddr& ip);

// Lets clients come; Exists: somebody else does so on this port. A socket that serves already goes on.
// REQUIRES: if it is one of UDP, it has not refused before.
base::Result<> serve(int socket, const Place& place);
// Lets the kernel refuse them: a TCP socket does not listen, a UDP socket hears nobody.
base::Result<> refuse(int socket, const Place& place);
// A UDP socket that takes the place of one which refuses, without a moment in between: the kernel has no way back for
// sockets of IPv6, which keep the address of the peer that they were connected to. It is prepared before clients come.
base::Result<base::Fd> replace_refusing(int socket, const Place& place,
                                        const std::function<base::Result<>(int socket)>& prepare);

}  // namespace userspace
