// The header of PROXY protocol, version 2, for a TCP connection: tells an endpoint who the client is.
// https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "net/ip.h"

namespace relay {

struct Peer {
  net::IpAddr ip;
  uint16_t port = 0;

  bool operator==(const Peer&) const = default;
};

class ProxyHeader {
 public:
  // REQUIRES: both are of one family. `to` is what the client has connected to.
  ProxyHeader(const Peer& from, const Peer& to);

  std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }

 private:
  std::array<std::byte, 52> bytes_{};
  size_t size_ = 0;
};

}  // namespace relay
