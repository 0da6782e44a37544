#include "relay/socket_address.h"

#include <algorithm>
#include <array>

namespace relay {
namespace {

constexpr size_t kMappedPrefix = 12;  // bytes in front of an IPv4 address that is mapped into IPv6

net::IpAddr ip_of(const in_addr& address) { return net::IpAddr::v4(ntohl(address.s_addr)); }

net::IpAddr ip_of(const in6_addr& address) {
  std::array<uint8_t, 16> bytes;
  std::copy_n(address.s6_addr, bytes.size(), bytes.begin());
  if (!IN6_IS_ADDR_V4MAPPED(&address)) return net::IpAddr::v6(bytes);
  in_addr mapped;
  std::copy_n(&bytes[kMappedPrefix], sizeof mapped, reinterpret_cast<uint8_t*>(&mapped));
  return ip_of(mapped);
}

}  // namespace

SocketAddress::SocketAddress(const net::IpAddr& ip, uint16_t port) : SocketAddress() {
  if (ip.family() == net::Family::V4) {
    v4_ = {};
    v4_.sin_family = AF_INET;
    v4_.sin_port = htons(port);
    std::copy_n(ip.data(), sizeof v4_.sin_addr, reinterpret_cast<uint8_t*>(&v4_.sin_addr));
  } else {
    v6_.sin6_family = AF_INET6;
    v6_.sin6_port = htons(port);
    std::copy_n(ip.data(), sizeof v6_.sin6_addr, v6_.sin6_addr.s6_addr);
  }
}

socklen_t SocketAddress::size() const {
  return any_.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

Peer SocketAddress::peer() const {
  switch (any_.sa_family) {
    case AF_INET:
      return {ip_of(v4_.sin_addr), ntohs(v4_.sin_port)};
    case AF_INET6:
      return {ip_of(v6_.sin6_addr), ntohs(v6_.sin6_port)};
    default:
      return {};
  }
}

}  // namespace relay
