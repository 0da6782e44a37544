#include "backend/ipvs/layout.h"

#include <set>

#include <gtest/gtest.h>

namespace ipvs {
namespace {

TEST(IpvsLayout, NamesOfIpv6HaveASixInThem) {
  EXPECT_EQ(set_name(SetId::ClusterIp, net::Family::V4), "KUBE-CLUSTER-IP");
  EXPECT_EQ(set_name(SetId::ClusterIp, net::Family::V6), "KUBE-6-CLUSTER-IP");
}

TEST(IpvsLayout, NamesThatTheKernelWouldNotTakeAreCut) {
  EXPECT_EQ(set_name(SetId::LoadBalancerSourceCidr, net::Family::V6),
            "KUBE-6-LOAD-BALANCER-SOURCE-CID");
  EXPECT_EQ(set_name(SetId::NodePortLocalSctp, net::Family::V6), "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS");
  EXPECT_EQ(set_name(SetId::NodePortLocalSctp, net::Family::V4), "KUBE-NODE-PORT-LOCAL-SCTP-HASH");
}

TEST(IpvsLayout, AllNamesOfBothFamiliesDiffer) {
  std::set<std::string> names;
  for (const auto family : net::kFamilies)
    for (const SetId set : all_sets())
      names.insert(set_name(set, family));
  EXPECT_EQ(names.size(), 2 * kSets);
}

TEST(IpvsLayout, PortsOfTcpAndUdpAreBitsAndThoseOfSctpAreNot) {
  EXPECT_EQ(type_of(SetId::NodePortTcp), kernel::SetType::BitmapPort);
  EXPECT_EQ(type_of(SetId::NodePortLocalUdp), kernel::SetType::BitmapPort);
  EXPECT_EQ(type_of(SetId::NodePortSctp), kernel::SetType::HashIpPort);
  EXPECT_EQ(type_of(SetId::HealthCheckNodePort), kernel::SetType::BitmapPort);
}

TEST(IpvsLayout, TheSetOfBoundAddressesIsTheLast) { EXPECT_EQ(all_sets().back(), SetId::IpvsIps); }

}  // namespace
}  // namespace ipvs
