#include "daemon/host_address.h"

#include <net/if.h>

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace proxyd {
namespace {

using build::ip;
using net::Family;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> v4_interfaces(const std::string& rows) {
  std::istringstream table(
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT  \n" +
      rows);
  return default_route_interfaces(Family::V4, table);
}
std::vector<std::string> v6_interfaces(const std::string& rows) {
  std::istringstream table(rows);
  return default_route_interfaces(Family::V6, table);
}

TEST(DefaultRoutes, AreThoseToEverywhere) {
  EXPECT_THAT(v4_interfaces("eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0   \n"
                            "eth1\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0   \n"
                            "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0   \n"
                            "eth2\t00000000\t010300C0\t0003\t0\t0\t9\t00000000\t0\t0\t0   \n"),
              ElementsAre("eth1", "eth2"));
  const std::string zero(32, '0');
  EXPECT_THAT(
      v6_interfaces("fd000000000000000000000000000000 40 " + zero + " 00 " + zero +
                    " 00000100 00000001 00000000 00000001     eth0\n" + zero + " 00 " + zero +
                    " 00 fd000000000000000000000000000001 00000400 00000003 00000000 00000003     "
                    "eth1\n"),
      ElementsAre("eth1"));
}

// The kernel has such a route itself where there is no other.
TEST(DefaultRoutes, ThatRefuseLeadNowhere) {
  const std::string zero(32, '0');
  EXPECT_THAT(v6_interfaces(zero + " 00 " + zero + " 00 " + zero +
                            " ffffffff 00000001 00000000 00200200       lo\n"),
              IsEmpty());
  EXPECT_THAT(v4_interfaces("*\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0\n"),
              IsEmpty());
}

TEST(DefaultRoutes, AreNotFoundInOtherText) {
  EXPECT_THAT(v4_interfaces("eth0 0\n\n\xff\xfe 0 0 zz 0 0 0 0\n"), IsEmpty());
  EXPECT_THAT(v6_interfaces("0 0 0 0 0 0 0 0 zz lo"), IsEmpty());
}

const std::vector<kernel::InterfaceAddress> kAddresses{
    {"lo", ip("127.0.0.1"), IFF_UP | IFF_LOOPBACK},
    {"eth0", ip("169.254.0.9"), IFF_UP},
    {"eth0", ip("192.0.2.1"), IFF_UP},
    {"eth0", ip("192.0.2.2"), IFF_UP},
    {"eth1", ip("198.51.100.1"), IFF_UP},
    {"eth2", ip("203.0.113.1"), 0},
    {"eth0", ip("fe80::1"), IFF_UP},
    {"eth1", ip("fd00::1"), IFF_UP},
};

std::string chosen(const std::vector<std::string>& routes, const std::string& node_ip = "127.0.0.1",
                   const std::vector<kernel::InterfaceAddress>& addresses = kAddresses) {
  const auto ip =
      choose_host_address(build::ip(node_ip).family(), routes, addresses, build::ip(node_ip));
  return ip ? ip->str() : "none";
}

TEST(HostAddress, IsTheFirstGlobalOneWhereADefaultRouteLeads) {
  EXPECT_EQ(chosen({"eth0"}), "192.0.2.1");
  EXPECT_EQ(chosen({"eth1", "eth0"}), "198.51.100.1");
  EXPECT_EQ(chosen({"eth0", "eth1"}, "::1"), "fd00::1") << "eth0 has a link-local one only";
}

TEST(HostAddress, IsNotOfAnInterfaceThatIsDown) {
  EXPECT_EQ(chosen({"eth2", "eth1"}), "198.51.100.1");
}

TEST(HostAddress, MayBeOnLoopbackWhereInterfacesHaveNone) {
  auto addresses = kAddresses;
  addresses.push_back({"lo", ip("203.0.113.9"), IFF_UP | IFF_LOOPBACK});
  EXPECT_EQ(chosen({"swp1", "eth0"}, "127.0.0.1", addresses), "203.0.113.9");
}

TEST(HostAddress, IsTheNodesWhereThereIsNoDefaultRoute) {
  EXPECT_EQ(chosen({}, "198.51.100.1"), "198.51.100.1");
  EXPECT_EQ(chosen({}, "198.51.100.99"), "192.0.2.1") << "nobody has it";
  EXPECT_EQ(chosen({}), "192.0.2.1");
}

TEST(HostAddress, IsOfATunnelAtTheWorst) {
  const kernel::InterfaceAddress tunnel{"tun0", ip("192.0.2.9"), IFF_UP | IFF_POINTOPOINT};
  EXPECT_EQ(chosen({}, "127.0.0.1", {tunnel, {"eth0", ip("192.0.2.1"), IFF_UP}}), "192.0.2.1");
  EXPECT_EQ(chosen({}, "127.0.0.1", {tunnel}), "192.0.2.9");
}

TEST(HostAddress, IsNoneWithoutInterfaces) {
  EXPECT_EQ(chosen({"eth0"}, "127.0.0.1", {}), "none");
  EXPECT_EQ(chosen({}, "127.0.0.1", {{"lo", ip("127.0.0.1"), IFF_UP | IFF_LOOPBACK}}), "none");
}

}  // namespace
}  // namespace proxyd
