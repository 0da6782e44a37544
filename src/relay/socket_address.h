// An address and a port in the form that sockets take.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "net/ip.h"
#include "relay/proxy_header.h"

namespace relay {

class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const net::IpAddr& ip, uint16_t port);

  // For the kernel to read.
  const sockaddr* get() const { return &any_; }
  socklen_t size() const;
  // For the kernel to write into: it has room for both families.
  sockaddr* buffer() { return &any_; }
  static constexpr socklen_t capacity() { return sizeof(sockaddr_in6); }

  // An IPv4 address that is mapped into IPv6 counts as IPv4.
  Peer peer() const;

 private:
  union {
    sockaddr any_;
    sockaddr_in v4_;
    sockaddr_in6 v6_{};
  };
};

}  // namespace relay
