#include "relay/socket_address.h"

#include <gtest/gtest.h>

#include "support/builders.h"

namespace relay {
namespace {

using build::ip;

TEST(SocketAddress, GivesBackWhatItWasMadeOf) {
  for (const char* text : {"10.1.2.3", "0.0.0.0", "fd00:1:2::3", "::"}) {
    const Peer peer{ip(text), 4711};
    EXPECT_EQ(SocketAddress(peer.ip, peer.port).peer(), peer) << text;
  }
}

TEST(SocketAddress, IsAsLongAsItsFamilySays) {
  EXPECT_EQ(SocketAddress(ip("10.1.2.3"), 1).size(), sizeof(sockaddr_in));
  EXPECT_EQ(SocketAddress(ip("fd00::1"), 1).size(), sizeof(sockaddr_in6));
  EXPECT_EQ(SocketAddress(ip("10.1.2.3"), 1).get()->sa_family, AF_INET);
  EXPECT_EQ(SocketAddress(ip("fd00::1"), 1).get()->sa_family, AF_INET6);
}

TEST(SocketAddress, AMappedAddressIsTheIpv4Address) {
  SocketAddress address(ip("fd00::1"), 80);
  auto* raw = reinterpret_cast<sockaddr_in6*>(address.buffer());
  raw->sin6_addr = {};
  for (const auto& [at, byte] :
       {std::pair(10, 255), {11, 255}, {12, 10}, {13, 1}, {14, 2}, {15, 3}})
    raw->sin6_addr.s6_addr[at] = static_cast<uint8_t>(byte);
  EXPECT_EQ(address.peer(), (Peer{ip("10.1.2.3"), 80}));
}

TEST(SocketAddress, AnEmptyOneIsNobody) { EXPECT_EQ(SocketAddress().peer(), Peer()); }

}  // namespace
}  // namespace relay
