// What a client on this machine meets at an address.
#pragma once

#include <sys/socket.h>

#include <cerrno>

#include "backend/userspace/sockets.h"
#include "relay/socket_address.h"

namespace userspace {

// A socket that is connected to that place; for TCP this waits. errno is 0 if it worked.
inline base::Fd connect_to(const Place& place) {
  const int type = place.protocol == net::Protocol::Udp ? SOCK_DGRAM : SOCK_STREAM;
  const int family = place.ip.family() == net::Family::V4 ? AF_INET : AF_INET6;
  base::Fd socket(::socket(family, type | SOCK_CLOEXEC, 0));
  const relay::SocketAddress to(place.ip, place.port);
  errno = 0;
  ::connect(socket.get(), to.get(), to.size());
  return socket;
}

// Is there nobody at that place, and the kernel says so?
inline bool is_refused(const Place& place) {
  const base::Fd socket = connect_to(place);
  if (place.protocol == net::Protocol::Tcp) return errno == ECONNREFUSED;
  // The kernel's answer comes while the datagram is being sent: this is one machine.
  char byte = 'x';
  if (::send(socket.get(), &byte, 1, 0) != 1) return errno == ECONNREFUSED;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == ECONNREFUSED;
}

}  // namespace userspace
