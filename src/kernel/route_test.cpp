#include "kernel/route.h"

#include <gtest/gtest.h>

#include "kernel/process.h"
#include "support/builders.h"
#include "support/own_network.h"

namespace kernel {
namespace {

using build::ip;
using RouteTest = build::OwnNetwork;

bool run_ip(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ip");
  const auto done = run({.argv = std::move(arguments)});
  return done && done->ok();
}

TEST_F(RouteTest, AnAddressOfThisMachineIsReachedByLoopback) {
  EXPECT_EQ(device_towards(ip("127.0.0.1")).value_or("?"), "lo");
  EXPECT_EQ(device_towards(ip("127.3.4.5")).value_or("?"), "lo");
}

TEST_F(RouteTest, WithoutARouteThereIsNoDevice) {
  EXPECT_FALSE(device_towards(ip("192.0.2.1")));
  EXPECT_FALSE(device_towards(ip("2001:db8::1")));
}

TEST_F(RouteTest, ANeighbourIsReachedByItsDevice) {
  if (!run_ip({"link", "add", "pod0", "type", "veth", "peer", "name", "eth0"}))
    GTEST_SKIP() << "needs the program ip, and veth devices";
  ASSERT_TRUE(run_ip({"link", "set", "pod0", "up"}));
  ASSERT_TRUE(run_ip({"addr", "add", "10.244.1.1/24", "dev", "pod0"}));
  EXPECT_EQ(device_towards(ip("10.244.1.7")).value_or("?"), "pod0");
  EXPECT_EQ(device_towards(ip("10.244.1.1")).value_or("?"), "lo");
  if (!run_ip({"-6", "addr", "add", "fd00:1::1/64", "dev", "pod0", "nodad"})) return;
  EXPECT_EQ(device_towards(ip("fd00:1::7")).value_or("?"), "pod0");
}

}  // namespace
}  // namespace kernel
