#include "backend/userspace/ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/userspace/test_plans.h"

namespace userspace {
namespace {

using build::cidr;
using build::service;
using plan::LocalTraffic;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kWeb = "default/web";

service web() { return service(kWeb).cluster_ip("10.96.0.10").port("http", 80, 30080); }
service balanced() { return web().load_balancer("1.2.3.4"); }

LocalTraffic pods() {
  return {.by = LocalTraffic::By::Source, .cidr = cidr("10.244.1.0/24"), .interface = {}};
}
LocalTraffic bridge() {
  return {.by = LocalTraffic::By::Interface, .cidr = {}, .interface = "cni0"};
}

Treatment treat(Way way, const plan::PortPlan& plan, const LocalTraffic& local = {}) {
  return treatment_of(way, plan, local);
}

TEST(Ways, AnOrdinaryServicePortHasOneFront) {
  const auto plan = plan_of(balanced().external_ip("192.168.99.11").node_port_type(), here(kWeb));
  EXPECT_THAT(fronts_of(plan), ElementsAre(Way::Internal));
  EXPECT_EQ(front_of(Way::External, plan), Way::Internal);
  EXPECT_EQ(treat(Way::Internal, plan), Treatment{.list = List::Cluster});
}

TEST(Ways, APolicyOnOneSideSeparatesTheFronts) {
  const auto both = ElementsAre(Way::Internal, Way::External);
  EXPECT_THAT(fronts_of(plan_of(web().node_port_type().local_external())), both);
  EXPECT_THAT(fronts_of(plan_of(web().node_port_type().local_internal())), both);
  EXPECT_THAT(fronts_of(plan_of(web().node_port_type().local_internal().local_external())), both);
}

TEST(Ways, WithoutExternalAddressesThereIsNoExternalFront) {
  const auto internal = service(kWeb).cluster_ip("10.96.0.10").port("http", 80).local_internal();
  EXPECT_THAT(fronts_of(plan_of(internal)), ElementsAre(Way::Internal));
}

TEST(Ways, ALoadBalancerAloneIsExternalUnlessItIsRestricted) {
  const auto only = [] {
    return service(kWeb)
        .cluster_ip("10.96.0.10")
        .port("http", 80)
        .load_balancer("1.2.3.4")
        .local_external();
  };
  EXPECT_THAT(fronts_of(plan_of(only())), ElementsAre(Way::Internal, Way::External));
  EXPECT_THAT(fronts_of(plan_of(only().source_range("203.0.113.0/24"))),
              ElementsAre(Way::Internal, Way::LoadBalancer));
}

TEST(Ways, SourceRangesSeparateTheLoadBalancer) {
  const auto plan = plan_of(balanced().source_range("203.0.113.0/24"), here(kWeb));
  EXPECT_THAT(fronts_of(plan), ElementsAre(Way::Internal, Way::LoadBalancer));
  EXPECT_EQ(treat(Way::LoadBalancer, plan),
            (Treatment{.list = List::Cluster,
                       .gate = {{{.networks = {cidr("203.0.113.0/24")}, .this_node = false}}}}));
  const auto with_node = plan_of(balanced().source_range("192.168.0.0/16"), here(kWeb));
  EXPECT_TRUE(treat(Way::LoadBalancer, with_node).gate.rules.at(0).this_node);
}

TEST(Ways, TheFrontsDoNotDependOnEndpoints) {
  const auto of = web().node_port_type().local_external();
  EXPECT_EQ(fronts_of(plan_of(of)), fronts_of(plan_of(of, here(kWeb), elsewhere(kWeb))));
}

TEST(Ways, WithoutEndpointsEveryWayRefuses) {
  const auto plan = plan_of(balanced().source_range("203.0.113.0/24").local_external());
  for (const Way way : kWays)
    EXPECT_EQ(treat(way, plan, pods()), Treatment{.refuse = true});
}

TEST(Ways, InternalPolicyLocalKeepsToThisNode) {
  EXPECT_EQ(treat(Way::Internal, plan_of(web().local_internal(), here(kWeb), elsewhere(kWeb))),
            Treatment{.list = List::Local});
  const relay::Gate nobody{{relay::Sources{}}};
  EXPECT_EQ(treat(Way::Internal, plan_of(web().local_internal(), elsewhere(kWeb))),
            Treatment{.gate = nobody});
}

TEST(Ways, ExternalPolicyLocalServesClientsOfThisNodeFromEverywhere) {
  const auto of = web().node_port_type().local_external();
  EXPECT_EQ(treat(Way::External, plan_of(of, here(kWeb), elsewhere(kWeb)), pods()),
            (Treatment{.list = List::Local, .for_local = List::Cluster}));
}

TEST(Ways, ExternalPolicyLocalWithoutAnEndpointHereIsSilentToOthers) {
  const auto plan = plan_of(web().node_port_type().local_external(), elsewhere(kWeb));
  EXPECT_EQ(treat(Way::External, plan, pods()),
            (Treatment{.for_local = List::Cluster,
                       .gate = {{{.networks = {cidr("10.244.1.0/24")}, .this_node = true}}}}));
  EXPECT_EQ(
      treat(Way::External, plan),
      (Treatment{.for_local = List::Cluster, .gate = {{{.networks = {}, .this_node = true}}}}));
  EXPECT_EQ(treat(Way::External, plan, bridge()), Treatment{.for_local = List::Cluster});
}

TEST(Ways, SourceRangesAndAMissingEndpointBothHold) {
  const auto plan =
      plan_of(balanced().source_range("10.0.0.0/8").local_external(), elsewhere(kWeb));
  EXPECT_EQ(treat(Way::LoadBalancer, plan, pods()).gate.rules.size(), 2U);
}

}  // namespace
}  // namespace userspace
