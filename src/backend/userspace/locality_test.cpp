#include "backend/userspace/locality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/process.h"
#include "support/builders.h"
#include "support/own_network.h"

namespace userspace {
namespace {

using build::cidr;
using build::ip;
using plan::LocalTraffic;
using LocalityTest = build::OwnNetwork;

TEST(Locality, TheNodeItselfIsLocal) {
  Locality locality({});
  EXPECT_FALSE(locality.contains(ip("192.168.0.2")));
  locality.set_addresses({ip("192.168.0.2"), ip("192.168.0.3")});
  EXPECT_TRUE(locality.contains(ip("192.168.0.2")));
  EXPECT_TRUE(locality.contains(ip("127.0.0.1")));
  EXPECT_FALSE(locality.contains(ip("192.168.0.4")));
}

TEST(Locality, PodsAreKnownByTheirAddresses) {
  const Locality locality({.by = LocalTraffic::By::Source, .cidr = cidr("10.244.1.0/24")});
  EXPECT_TRUE(locality.contains(ip("10.244.1.7")));
  EXPECT_FALSE(locality.contains(ip("10.244.2.7")));
}

TEST_F(LocalityTest, PodsAreKnownByTheirInterface) {
  const auto ran = [](std::vector<std::string> arguments) {
    const auto done = kernel::run({.argv = std::move(arguments)});
    return done && done->ok();
  };
  if (!ran({"ip", "link", "add", "cni0", "type", "veth", "peer", "name", "eth0"}))
    GTEST_SKIP() << "needs the program ip, and veth devices";
  ASSERT_TRUE(ran({"ip", "link", "set", "cni0", "up"}));
  ASSERT_TRUE(ran({"ip", "addr", "add", "10.244.1.1/24", "dev", "cni0"}));
  const auto contains = [](LocalTraffic::By by, std::string name, const char* client) {
    return Locality({.by = by, .cidr = {}, .interface = std::move(name)}).contains(ip(client));
  };
  EXPECT_TRUE(contains(LocalTraffic::By::Interface, "cni0", "10.244.1.7"));
  EXPECT_FALSE(contains(LocalTraffic::By::Interface, "cni", "10.244.1.7"));
  EXPECT_TRUE(contains(LocalTraffic::By::InterfacePrefix, "cni", "10.244.1.7"));
  EXPECT_FALSE(contains(LocalTraffic::By::InterfacePrefix, "cni", "192.0.2.1"));
  EXPECT_THAT(*node_addresses(net::Family::V4),
              testing::ElementsAre(ip("10.244.1.1"), ip("127.0.0.1")));
}

}  // namespace
}  // namespace userspace
