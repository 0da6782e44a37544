#include "backend/userspace/flows.h"

#include <gtest/gtest.h>

#include "support/builders.h"

namespace userspace {
namespace {

using build::ip;
using net::Protocol;

Portal dns(uint16_t proxy_port) {
  return {.kind = Portal::Kind::ClusterIp,
          .protocol = Protocol::Udp,
          .ip = ip("10.96.0.10"),
          .port = 53,
          .proxy_port = proxy_port};
}
Portal node_port(uint16_t proxy_port) {
  return {.kind = Portal::Kind::NodePort,
          .protocol = Protocol::Udp,
          .ip = {},
          .port = 30053,
          .proxy_port = proxy_port};
}

net::Flow flow(const char* to, uint16_t port, uint16_t answered_by) {
  const net::IpAddr client = ip("10.244.1.7");
  return {.protocol = Protocol::Udp,
          .original = {client, ip(to), 4711, port},
          .reply = {ip("192.168.0.2"), client, answered_by, 4711}};
}

PortalFlows flows() { return PortalFlows({ip("192.168.0.2")}); }

TEST(PortalFlows, AFlowToTheProxyPortIsFine) {
  auto all = flows();
  all.add_current(dns(40000));
  EXPECT_FALSE(all.stale(flow("10.96.0.10", 53, 40000)));
  EXPECT_TRUE(all.stale(flow("10.96.0.10", 53, 40001)));
  EXPECT_TRUE(all.stale(flow("10.96.0.10", 53, 53)));
  EXPECT_FALSE(all.stale(flow("10.96.0.10", 54, 54)));
  EXPECT_FALSE(all.stale(flow("10.96.0.11", 53, 53)));
}

TEST(PortalFlows, ANodePortIsOneOfThisNode) {
  auto all = flows();
  all.add_current(node_port(40000));
  EXPECT_FALSE(all.stale(flow("192.168.0.2", 30053, 40000)));
  EXPECT_TRUE(all.stale(flow("192.168.0.2", 30053, 30053)));
  EXPECT_FALSE(all.stale(flow("192.168.0.3", 30053, 30053)));
}

TEST(PortalFlows, APortalThatIsGoneTakesItsFlowsAlong) {
  auto all = flows();
  all.add_gone(dns(40000));
  EXPECT_TRUE(all.stale(flow("10.96.0.10", 53, 40000)));
  EXPECT_FALSE(all.stale(flow("10.96.0.10", 53, 8053)));
}

TEST(PortalFlows, APortalThatHasMovedIsJudgedByWhereItLeadsNow) {
  auto all = flows();
  all.add_gone(dns(40000));
  all.add_current(dns(40001));
  EXPECT_TRUE(all.stale(flow("10.96.0.10", 53, 40000)));
  EXPECT_FALSE(all.stale(flow("10.96.0.10", 53, 40001)));
}

TEST(PortalFlows, OnlyUdpMatters) {
  auto all = flows();
  auto tcp = dns(40000);
  tcp.protocol = Protocol::Tcp;
  all.add_current(tcp);
  EXPECT_TRUE(all.idle());
  all.add_gone(dns(40000));
  EXPECT_FALSE(all.idle());
}

TEST(PortalFlows, TwoPortalsOfOneAddressBothCount) {
  auto all = flows();
  all.add_current(dns(40000));
  all.add_current(dns(40001));
  EXPECT_FALSE(all.stale(flow("10.96.0.10", 53, 40000)));
  EXPECT_FALSE(all.stale(flow("10.96.0.10", 53, 40001)));
}

}  // namespace
}  // namespace userspace
