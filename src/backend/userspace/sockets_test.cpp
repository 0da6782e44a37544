#include "backend/userspace/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <gtest/gtest.h>

#include "backend/userspace/test_client.h"
#include "support/builders.h"
#include "support/loopback_address.h"
#include "support/own_network.h"

namespace userspace {
namespace {

using base::ErrorCode;
using build::ip;
using net::Protocol;

class SocketTest : public build::OwnNetwork, public testing::WithParamInterface<Protocol> {
 protected:
  Place anywhere(uint16_t port) const { return {GetParam(), ip("0.0.0.0"), port}; }
  Place loopback(uint16_t port) const { return {GetParam(), ip("127.0.0.1"), port}; }
};

int option(int socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  ::getsockopt(socket, level, name, &value, &size);
  return value;
}

TEST_P(SocketTest, APortThatServesIsInUse) {
  const auto front = bind_front(anywhere(40000));
  ASSERT_TRUE(front && serve(front->get(), anywhere(40000)));
  const auto second = bind_front(anywhere(40000));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::Exists);
}

TEST_P(SocketTest, AClaimRefusesAndKeepsOthersAway) {
  const auto claim = bind_claim(anywhere(30080));
  ASSERT_TRUE(claim) << claim.error().text;
  EXPECT_TRUE(is_refused(loopback(30080)));
  EXPECT_FALSE(bind_claim(anywhere(30080)));
  EXPECT_FALSE(bind_claim(loopback(30080)));
}

TEST_P(SocketTest, TheFamiliesDoNotMeet) {
  const auto v4 = bind_front(anywhere(40000));
  ASSERT_TRUE(v4 && serve(v4->get(), anywhere(40000)));
  const auto v6 = bind_front({GetParam(), ip("::"), 40000});
  if (!v6 && v6.error().code == ErrorCode::Unsupported) GTEST_SKIP() << "needs IPv6";
  EXPECT_TRUE(v6) << v6.error().text;
}

TEST_P(SocketTest, APickedPortCanBeBound) {
  const auto port = pick_port(GetParam(), ip("0.0.0.0"));
  ASSERT_TRUE(port) << port.error().text;
  EXPECT_TRUE(bind_front(anywhere(*port)));
}

TEST_P(SocketTest, AnAddressOfAnotherMachineIsAnError) {
  const auto front = bind_front({GetParam(), ip("192.0.2.1"), 40000});
  ASSERT_FALSE(front);
  EXPECT_NE(front.error().code, ErrorCode::Exists);
  EXPECT_EQ(front.error().text.find("listen "), 0U) << front.error().text;
}

INSTANTIATE_TEST_SUITE_P(Both, SocketTest, testing::Values(Protocol::Tcp, Protocol::Udp),
                         [](const auto& one) { return std::string(net::name(one.param)); });

// The address that clients come to is not the one by which a socket of UDP is kept from hearing them.
class TurnTest : public build::OwnNetwork, public testing::WithParamInterface<net::Family> {
 protected:
  void SetUp() override {
    OwnNetwork::SetUp();
    if (IsSkipped()) return;
    if (!build::add_to_loopback(node)) GTEST_SKIP() << "needs " << net::name(GetParam());
  }
  Place anywhere(Protocol protocol) const { return {protocol, all, 40000}; }
  bool refused(Protocol protocol) const { return is_refused({protocol, node, 40000}); }

  const bool v4 = GetParam() == net::Family::V4;
  const net::IpAddr all = ip(v4 ? "0.0.0.0" : "::");
  const net::IpAddr node = ip(v4 ? "192.0.2.1" : "2001:db8::1");
};

TEST_P(TurnTest, ATcpFrontServesAndRefusesOnOnePort) {
  const Place place = anywhere(Protocol::Tcp);
  const auto front = bind_front(place);
  ASSERT_TRUE(front) << front.error().text;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(refused(Protocol::Tcp));
    ASSERT_TRUE(serve(front->get(), place));
    EXPECT_FALSE(refused(Protocol::Tcp));
    EXPECT_TRUE(serve(front->get(), place));
    ASSERT_TRUE(refuse(front->get(), place));
  }
}

TEST_P(TurnTest, AUdpFrontServesAndRefusesOnOnePort) {
  const Place place = anywhere(Protocol::Udp);
  auto front = bind_front(place);
  ASSERT_TRUE(front) << front.error().text;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(serve(front->get(), place));
    EXPECT_FALSE(refused(Protocol::Udp));
    const auto done = refuse(front->get(), place);
    ASSERT_TRUE(done) << done.error().text;
    EXPECT_TRUE(refused(Protocol::Udp));
    front = replace_refusing(front->get(), place, [](int) { return base::Result<>(); });
    ASSERT_TRUE(front) << front.error().text;
    EXPECT_FALSE(bind_claim(place));
  }
}

TEST_P(TurnTest, ASocketThatCannotBePreparedTakesNoPlace) {
  const Place place = anywhere(Protocol::Udp);
  const auto front = bind_claim(place);
  ASSERT_TRUE(front);
  EXPECT_FALSE(replace_refusing(front->get(), place, [](int) -> base::Result<> {
    return base::fail(ErrorCode::Invalid, "no");
  }));
  EXPECT_TRUE(refused(Protocol::Udp));
}

INSTANTIATE_TEST_SUITE_P(Both, TurnTest, testing::ValuesIn(net::kFamilies),
                         [](const auto& one) { return std::string(net::name(one.param)); });

using TcpSocketTest = build::OwnNetwork;

TEST_F(TcpSocketTest, ConnectionsInheritTheirOptions) {
  const Place place{Protocol::Tcp, ip("127.0.0.1"), 40000};
  const auto front = bind_front(place);
  ASSERT_TRUE(front && serve(front->get(), place));
  const base::Fd client = connect_to(place);
  const base::Fd accepted(::accept(front->get(), nullptr, nullptr));
  ASSERT_TRUE(accepted);
  EXPECT_EQ(option(accepted.get(), IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option(accepted.get(), SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(accepted.get(), IPPROTO_TCP, TCP_KEEPIDLE), 15);
  EXPECT_EQ(option(accepted.get(), IPPROTO_TCP, TCP_KEEPINTVL), 15);
}

TEST_F(TcpSocketTest, APortThatSomebodyElseListensOnCannotServe) {
  const Place place{Protocol::Tcp, ip("127.0.0.1"), 40000};
  const auto first = bind_front(place);
  const auto second = bind_front(place);  // possible as long as neither listens
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(serve(first->get(), place));
  const auto late = serve(second->get(), place);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::Exists);
}

}  // namespace
}  // namespace userspace
