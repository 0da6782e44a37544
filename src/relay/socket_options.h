// What every TCP socket of the relay has set, on either side.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace relay {

inline bool set_option(int socket, int level, int option, int value) {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

// Nothing is held back, and a peer that has vanished is noticed. Connections inherit this from a socket that listens.
inline bool set_tcp_options(int socket) {
  constexpr int kKeepAliveSeconds = 15;  // Parity: before the first probe, and between two
  return set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1) &&
         set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1) &&
         set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveSeconds) &&
         set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveSeconds);
}

}  // namespace relay
