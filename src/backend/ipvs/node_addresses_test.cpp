#include "backend/ipvs/node_addresses.h"

#include <gmock/gmock.h>

#include "support/builders.h"

namespace ipvs {
namespace {

using build::cidr;
using build::ip;
using testing::ElementsAre;

const std::vector<kernel::DeviceAddress> kAll{
    {1, ip("127.0.0.1")}, {1, ip("192.168.77.1")}, {2, ip("172.31.0.11")},
    {7, ip("10.96.0.1")}, {7, ip("172.31.0.99")},  {3, ip("172.31.0.11")},
    {2, ip("fe80::1")},   {2, ip("fd00:31::11")},  {2, ip("169.254.1.1")},
};

TEST(NodeAddresses, AreThoseOfAllDevicesButOurs) {
  const auto node = node_addresses(kAll, 7, {});
  EXPECT_THAT(node.own, ElementsAre(ip("169.254.1.1"), ip("172.31.0.11"), ip("192.168.77.1"),
                                    ip("fd00:31::11")));
  EXPECT_EQ(node.node_ports, node.own);
}

TEST(NodeAddresses, NodePortsMayBeOpenOnSomeOnly) {
  const auto node = node_addresses(kAll, 7, {cidr("172.31.0.0/16")});
  EXPECT_THAT(node.node_ports, ElementsAre(ip("172.31.0.11")));
}

TEST(NodeAddresses, ThoseOfOurDeviceAreServices) {
  EXPECT_THAT(bound_addresses(kAll, 7), ElementsAre(ip("10.96.0.1"), ip("172.31.0.99")));
}

}  // namespace
}  // namespace ipvs
