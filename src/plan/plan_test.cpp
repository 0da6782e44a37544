#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace plan {
namespace {

using build::entry;
using build::service;
using build::slice;
using testing::ElementsAre;
using testing::IsEmpty;

Context here(std::string zone = "zone-a") {
  Context context;
  context.node_name = "node1";
  context.zone = std::move(zone);
  context.node_ip = build::ip("172.31.0.11");
  return context;
}

service web() { return service("default/web").cluster_ip("10.96.0.1").port("http", 80); }
service node_port() {
  return service("default/web").cluster_ip("10.96.0.1").port("http", 80, 30080).node_port_type();
}
slice endpoints(std::string name = "web-1") {
  return slice("default/web", std::move(name)).port("http", 8080);
}

PortPlan only_port(const model::ServiceEntry& object, const Context& context = here()) {
  auto plan = compile_service(object, context);
  EXPECT_EQ(plan.ports.size(), 1U);
  return plan.ports.at(0);
}

// "10.0.0.1:80 cluster-word local-word", in order.
std::vector<std::string> fates(const PortPlan& port) {
  std::vector<std::string> out;
  for (const auto& e : port.endpoints) {
    out.push_back(std::string(e.text.view()) + " " + std::string(word(e.cluster)) + " " +
                  std::string(word(e.node_local)));
  }
  return out;
}

TEST(ServicePlan, SkippedServicesHaveNoPorts) {
  for (const auto reason : {model::SkipReason::Headless, model::SkipReason::ExternalName,
                            model::SkipReason::OtherProxy, model::SkipReason::NoClusterIp}) {
    EXPECT_THAT(compile_service(entry(web().skipped(reason)), here()).ports, IsEmpty());
  }
}

TEST(ServicePlan, AFamilyWithoutClusterIpHasNoPorts) {
  Context v6 = here();
  v6.family = net::Family::V6;
  EXPECT_THAT(compile_service(entry(web()), v6).ports, IsEmpty());
}

TEST(ServicePlan, SlicesWithoutAServiceAreNothing) {
  EXPECT_THAT(
      compile_service({build::key("default/web"), nullptr, {endpoints().ptr()}}, here()).ports,
      IsEmpty());
}

TEST(ServicePlan, NamesThePortOnlyIfItHasAName) {
  EXPECT_EQ(only_port(entry(web())).name, "default/web:http");
  EXPECT_EQ(only_port(entry(service("a/b").cluster_ip("10.96.0.1").port("", 80))).name, "a/b");
}

TEST(ServicePlan, PortsStandInTheOrderOfNameAndProtocol) {
  const auto plan = compile_service(entry(service("a/dns")
                                              .cluster_ip("10.96.0.1")
                                              .port("metrics", 9153)
                                              .port("dns", 53, 0, net::Protocol::Udp)
                                              .port("dns", 53)),
                                    here());
  ASSERT_EQ(plan.ports.size(), 3U);
  EXPECT_EQ(plan.ports[0].protocol, net::Protocol::Tcp);
  EXPECT_EQ(plan.ports[1].protocol, net::Protocol::Udp);
  EXPECT_EQ(plan.ports[2].name, "a/dns:metrics");
}

TEST(ServicePlan, PortsOfOneNameAndProtocolStayInTheOrderOfTheService) {
  const auto plan = compile_service(
      entry(service("a/odd").cluster_ip("10.96.0.1").port("x", 81).port("x", 80).port("x", 82)),
      here());
  std::vector<uint16_t> numbers;
  for (const auto& port : plan.ports)
    numbers.push_back(port.port);
  EXPECT_THAT(numbers, ElementsAre(81, 80, 82));
}

TEST(ServicePlan, SaysByWhichAddressesAndPortsItIsReached) {
  const auto port = only_port(entry(service("default/web")
                                        .cluster_ip("10.96.0.1")
                                        .port("http", 80, 30080)
                                        .external_ip("198.51.100.1")
                                        .external_ip("2001:db8::1")
                                        .load_balancer("203.0.113.1")
                                        .load_balancer("2001:db8::2")));
  EXPECT_EQ(port.cluster_ip, build::ip("10.96.0.1"));
  EXPECT_EQ(port.port, 80);
  EXPECT_EQ(port.node_port, 30080);
  EXPECT_THAT(port.external_ips, ElementsAre(build::ip("198.51.100.1")));
  EXPECT_THAT(port.load_balancer_ips, ElementsAre(build::ip("203.0.113.1")));
}

TEST(ServicePlan, SaysForHowLongClientsStickToAnEndpoint) {
  EXPECT_EQ(only_port(entry(web())).affinity_timeout_s, std::nullopt);
  EXPECT_EQ(only_port(entry(web().affinity(600))).affinity_timeout_s, 600U);
}

TEST(ServicePlan, AnEndpointHasItsAddressAndPortAlsoAsText) {
  const auto endpoint = only_port(entry(web(), endpoints().ready("10.0.0.9"))).endpoints.at(0);
  EXPECT_EQ(endpoint.ip, build::ip("10.0.0.9"));
  EXPECT_EQ(endpoint.port, 8080);
  EXPECT_EQ(endpoint.text.view(), "10.0.0.9:8080");
}

TEST(ServicePlan, EndpointsStandInByteOrderOfTheirText) {
  const auto port =
      only_port(entry(web(), endpoints().ready("10.0.0.9").ready("10.0.0.10").ready("10.0.0.2")));
  EXPECT_THAT(fates(port),
              ElementsAre("10.0.0.10:8080 ready not-asked", "10.0.0.2:8080 ready not-asked",
                          "10.0.0.9:8080 ready not-asked"));
}

TEST(ServicePlan, PortsMatchByNameAndProtocol) {
  const auto port = only_port(
      entry(web(), slice("default/web", "a").port("http", 1, net::Protocol::Udp).ready("10.0.0.1"),
            slice("default/web", "b").port("other", 2).ready("10.0.0.2")));
  EXPECT_THAT(fates(port), IsEmpty());
  EXPECT_EQ(port.internal_verdict(), Verdict::Reject);
}

TEST(ServicePlan, SlicesOfTheOtherFamilyAreLeftOut) {
  const auto port = only_port(
      entry(web(), slice("default/web", "six", net::Family::V6).port("http", 80).ready("fd00::1")));
  EXPECT_THAT(fates(port), IsEmpty());
}

TEST(ServicePlan, EndpointsOfOnePortMayListenOnDifferentNumbers) {
  const auto port =
      only_port(entry(web(), endpoints("a").ready("10.0.0.1"),
                      slice("default/web", "b").port("http", 9090).ready("10.0.0.1")));
  EXPECT_THAT(fates(port),
              ElementsAre("10.0.0.1:8080 ready not-asked", "10.0.0.1:9090 ready not-asked"));
}

TEST(ServicePlan, OfTwoEntriesTheOneThatIsNotTerminatingCounts) {
  const auto first = only_port(
      entry(web(), endpoints("a").draining("10.0.0.1"), endpoints("b").ready("10.0.0.1")));
  EXPECT_THAT(fates(first), ElementsAre("10.0.0.1:8080 ready not-asked"));
  const auto second = only_port(
      entry(web(), endpoints("a").ready("10.0.0.1"), endpoints("b").draining("10.0.0.1")));
  EXPECT_THAT(fates(second), ElementsAre("10.0.0.1:8080 ready not-asked"));
}

TEST(ServicePlan, OfTwoEntriesInTwoSlicesTheFirstSliceByNameCounts) {
  const auto port =
      only_port(entry(web().local_internal(), endpoints("a").ready("10.0.0.1", "node1"),
                      endpoints("b").ready("10.0.0.1", "node2")));
  EXPECT_TRUE(port.endpoints.at(0).local);
}

TEST(ServicePlan, OfTwoEntriesInOneSliceTheLaterCounts) {
  const auto port =
      only_port(entry(web().local_internal(),
                      endpoints("a").ready("10.0.0.1", "node2").ready("10.0.0.1", "node1")));
  ASSERT_EQ(port.endpoints.size(), 1U);
  EXPECT_TRUE(port.endpoints[0].local);
}

TEST(ServicePlan, UnreadyEndpointsAreNotUsed) {
  const auto port = only_port(
      entry(web(), endpoints().not_ready("10.0.0.1").endpoint("10.0.0.2", "", false, true, false)));
  EXPECT_THAT(fates(port), ElementsAre("10.0.0.1:8080 not-ready not-asked",
                                       "10.0.0.2:8080 not-ready not-asked"));
  EXPECT_FALSE(port.has_endpoints);
}

TEST(ServicePlan, TerminatingEndpointsAreTheLastResort) {
  const auto mixed = only_port(entry(web(), endpoints().ready("10.0.0.1").draining("10.0.0.2")));
  EXPECT_THAT(fates(mixed),
              ElementsAre("10.0.0.1:8080 ready not-asked", "10.0.0.2:8080 terminating not-asked"));
  const auto alone = only_port(
      entry(web(), endpoints().draining("10.0.0.2").endpoint("10.0.0.3", "", false, false, true)));
  EXPECT_THAT(fates(alone), ElementsAre("10.0.0.2:8080 last-resort not-asked",
                                        "10.0.0.3:8080 not-ready not-asked"));
  EXPECT_EQ(alone.internal_verdict(), Verdict::Cluster);
}

TEST(ServicePlan, InternalPolicyLocalUsesOnlyThisNode) {
  const auto port = only_port(entry(
      web().local_internal(), endpoints().ready("10.0.0.1", "node1").ready("10.0.0.2", "node2")));
  EXPECT_THAT(fates(port),
              ElementsAre("10.0.0.1:8080 not-asked ready", "10.0.0.2:8080 not-asked remote"));
  EXPECT_EQ(port.internal_verdict(), Verdict::Local);
}

TEST(ServicePlan, InternalPolicyLocalDropsWhenTheNodeHasNoEndpoint) {
  const auto port =
      only_port(entry(web().local_internal(), endpoints().ready("10.0.0.2", "node2")));
  EXPECT_EQ(port.internal_verdict(), Verdict::Drop);
  EXPECT_EQ(only_port(entry(web().local_internal())).internal_verdict(), Verdict::Reject);
}

TEST(ServicePlan, AnEndpointIsLocalByTheNameOfItsNode) {
  const auto is_local = [](std::string_view of, std::string node_name) {
    Context context = here();
    context.node_name = std::move(node_name);
    return only_port(entry(web(), endpoints().ready("10.0.0.1", of)), context).endpoints[0].local;
  };
  EXPECT_TRUE(is_local("node1", "node1"));
  EXPECT_TRUE(is_local("n", "n"));
  EXPECT_FALSE(is_local("node1", "node"));
  EXPECT_FALSE(is_local("", "node1"));
  EXPECT_FALSE(is_local("", "")) << "of an endpoint without a node nobody knows where it is";
}

TEST(ServicePlan, ExternalPolicyLocalKeepsTheClusterListForShortCircuits) {
  const auto port =
      only_port(entry(node_port().local_external(),
                      endpoints().ready("10.0.0.1", "node1").ready("10.0.0.2", "node2")));
  EXPECT_THAT(fates(port), ElementsAre("10.0.0.1:8080 ready ready", "10.0.0.2:8080 ready remote"));
  EXPECT_EQ(port.external_verdict(), Verdict::Local);
  EXPECT_EQ(port.internal_verdict(), Verdict::Cluster);
}

TEST(ServicePlan, ExternalPolicyLocalDropsWhenTheNodeHasNoEndpoint) {
  const auto port =
      only_port(entry(node_port().local_external(), endpoints().ready("10.0.0.2", "node2")));
  EXPECT_EQ(port.external_verdict(), Verdict::Drop);
}

TEST(ServicePlan, ExternalPolicyLocalFallsBackToLocalTerminatingOnes) {
  const auto port =
      only_port(entry(node_port().local_external(),
                      endpoints().draining("10.0.0.1", "node1").ready("10.0.0.2", "node2")));
  EXPECT_THAT(fates(port),
              ElementsAre("10.0.0.1:8080 terminating last-resort", "10.0.0.2:8080 ready remote"));
  EXPECT_EQ(port.external_verdict(), Verdict::Local);
}

TEST(ServicePlan, ExternalPolicyLocalNeedsAServiceThatIsReachedFromOutside) {
  EXPECT_FALSE(only_port(entry(web().local_external())).external_local);
  EXPECT_TRUE(only_port(entry(web().local_external().external_ip("203.0.113.1"))).external_local);
}

TEST(ServicePlan, ZoneHintsKeepTrafficInTheZone) {
  const auto port = only_port(
      entry(web(),
            endpoints().ready("10.0.0.1").for_zone("zone-a").ready("10.0.0.2").for_zone("zone-b")));
  EXPECT_THAT(fates(port),
              ElementsAre("10.0.0.1:8080 ready not-asked", "10.0.0.2:8080 other-zone not-asked"));
  EXPECT_EQ(port.topology, Topology::SameZone);
}

TEST(ServicePlan, OneReadyEndpointWithoutHintsSwitchesHintsOff) {
  const auto port =
      only_port(entry(web(), endpoints().ready("10.0.0.1").for_zone("zone-a").ready("10.0.0.2")));
  EXPECT_EQ(port.topology, Topology::None);
  EXPECT_EQ(port.cluster_count, 2U);
}

TEST(ServicePlan, HintsForOtherZonesOnlyAreIgnored) {
  const auto port = only_port(entry(web(), endpoints().ready("10.0.0.2").for_zone("zone-b")));
  EXPECT_EQ(port.topology, Topology::None);
}

TEST(ServicePlan, ANodeWithoutZoneIgnoresZoneHints) {
  const auto port =
      only_port(entry(web(), endpoints().ready("10.0.0.1").for_zone("zone-a")), here(""));
  EXPECT_EQ(port.topology, Topology::None);
}

TEST(ServicePlan, NodeHintsComeBeforeZoneHints) {
  const auto port = only_port(entry(web(), endpoints()
                                               .ready("10.0.0.1")
                                               .for_zone("zone-a")
                                               .for_node("node2")
                                               .ready("10.0.0.2")
                                               .for_zone("zone-b")
                                               .for_node("node1")));
  EXPECT_EQ(port.topology, Topology::SameNode);
  EXPECT_THAT(fates(port),
              ElementsAre("10.0.0.1:8080 other-node not-asked", "10.0.0.2:8080 ready not-asked"));
}

TEST(ServicePlan, UnreadyEndpointsNeedNoHints) {
  const auto port = only_port(
      entry(web(), endpoints().ready("10.0.0.1").for_zone("zone-a").not_ready("10.0.0.2")));
  EXPECT_EQ(port.topology, Topology::SameZone);
}

TEST(ServicePlan, TheLastResortIgnoresHints) {
  const auto port = only_port(entry(web(), endpoints().draining("10.0.0.2").for_zone("zone-b")));
  EXPECT_EQ(port.cluster_count, 1U);
}

TEST(ServicePlan, AZeroRangeLetsEverybodyIn) {
  const auto port = only_port(entry(
      web().load_balancer("203.0.113.1").source_range("10.0.0.0/8").source_range("0.0.0.0/0")));
  EXPECT_FALSE(port.restricted());
}

TEST(ServicePlan, RangesOfTheOtherFamilyDoNotRestrict) {
  EXPECT_FALSE(
      only_port(entry(web().load_balancer("203.0.113.1").source_range("fd00::/8"))).restricted());
}

TEST(ServicePlan, KnowsWhetherTheNodeIsInASourceRange) {
  EXPECT_TRUE(only_port(entry(web().load_balancer("203.0.113.1").source_range("172.31.0.0/24")))
                  .node_in_source_ranges);
  EXPECT_FALSE(only_port(entry(web().load_balancer("203.0.113.1").source_range("10.0.0.0/8")))
                   .node_in_source_ranges);
}

TEST(ServicePlan, HealthCheckPortNeedsALoadBalancerWithPolicyLocal) {
  EXPECT_EQ(
      only_port(entry(web().load_balancer("203.0.113.1").local_external().health_check(30999)))
          .health_check_node_port,
      30999);
  EXPECT_EQ(only_port(entry(web().load_balancer("203.0.113.1").health_check(30999)))
                .health_check_node_port,
            0);
  EXPECT_EQ(
      only_port(entry(node_port().local_external().health_check(30999))).health_check_node_port, 0);
}

TEST(ServicePlan, ExternalIpsCanBeSwitchedOffButStillCountAsReachable) {
  Context context = here();
  context.external_ips = false;
  const auto port = only_port(entry(web().external_ip("203.0.113.1").local_internal()), context);
  EXPECT_THAT(port.external_ips, IsEmpty());
  EXPECT_TRUE(port.externally_accessible);
}

TEST(ServicePlan, CountsTheEndpointsOfAllPorts) {
  const auto two_ports = service("a/b").cluster_ip("10.96.0.1").port("x", 80).port("y", 81);
  const auto list =
      slice("a/b", "s").port("x", 1).port("y", 2).ready("10.0.0.1").not_ready("10.0.0.2");
  EXPECT_EQ(compile_service(entry(two_ports, list), here()).endpoint_count(), 4U);
  EXPECT_EQ(compile_service(entry(two_ports), here()).endpoint_count(), 0U);
}

model::ServiceMap cluster(const std::vector<model::ServiceEntry>& entries) {
  model::ServiceMap map;
  for (const auto& one : entries)
    map.put(std::make_shared<const model::ServiceEntry>(one));
  return map;
}

// "ns/name ports", in order.
std::vector<std::string> ports_of(const std::vector<ServicePlan>& plans) {
  std::vector<std::string> out;
  for (const auto& plan : plans)
    out.push_back(plan.key.str() + " " + std::to_string(plan.ports.size()));
  return out;
}

TEST(Plans, OfAllServicesAreOfThoseThatAreProxied) {
  const auto services = cluster({entry(service("a/b").cluster_ip("10.96.0.2").port("", 80)),
                                 entry(service("a/a").cluster_ip("10.96.0.1").port("", 80)),
                                 entry(service("a/none").skipped(model::SkipReason::Headless))});
  EXPECT_THAT(ports_of(compile_all(services, here())), ElementsAre("a/a 1", "a/b 1"));
}

TEST(Plans, OfSomeServicesAreAlsoOfThoseThatAreGone) {
  const auto services = cluster({entry(service("a/a").cluster_ip("10.96.0.1").port("", 80)),
                                 entry(service("a/b").cluster_ip("10.96.0.2").port("", 80)),
                                 entry(service("a/none").skipped(model::SkipReason::Headless))});
  EXPECT_THAT(
      ports_of(compile_some(
          services, {build::key("a/b"), build::key("a/gone"), build::key("a/none")}, here())),
      ElementsAre("a/b 1", "a/gone 0", "a/none 0"));
}

TEST(ServicePlan, KnowsOneVersionOfTheProxyProtocol) {
  const auto annotated = [](std::string value) {
    model::ServiceEntry object = entry(web());
    auto changed = std::make_shared<model::Service>(*object.service);
    changed->proxy_protocol = std::move(value);
    object.service = std::move(changed);
    return compile_service(object, here());
  };
  EXPECT_TRUE(annotated("v2").proxy_protocol);
  EXPECT_EQ(annotated("v2").proxy_protocol_problem, "");
  EXPECT_FALSE(annotated("").proxy_protocol);
  EXPECT_EQ(annotated("").proxy_protocol_problem, "");
  EXPECT_FALSE(annotated("v1").proxy_protocol);
  EXPECT_EQ(annotated("v1").proxy_protocol_problem,
            "annotation userspace.kube-proxy/proxy-protocol: \"v1\": must be v2");
}

}  // namespace
}  // namespace plan
