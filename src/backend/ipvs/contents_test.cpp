#include "backend/ipvs/contents.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace ipvs {
namespace {

using build::cidr;
using build::ip;
using build::service;
using build::slice;
using kernel::VirtualServer;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr auto kUdp = net::Protocol::Udp;
constexpr auto kSctp = net::Protocol::Sctp;

const NodeAddresses kNode{.own = {ip("172.31.0.11"), ip("192.168.77.1")},
                          .node_ports = {ip("172.31.0.11"), ip("192.168.77.1")}};

plan::ServicePlan plan_of(const model::ServiceEntry& entry) {
  plan::Context context;
  context.node_name = "node1";
  context.node_ip = ip("172.31.0.11");
  return plan::compile_service(entry, context);
}

ServiceContents contents(const model::ServiceEntry& entry, const NodeAddresses& node = kNode,
                         const std::string& scheduler = "rr") {
  return contents_of(plan_of(entry), scheduler, node);
}

std::vector<std::string> keys(const ServiceContents& contents) {
  std::vector<std::string> list;
  for (const auto& front : contents.fronts)
    list.push_back(front.server.key.str());
  return list;
}

// The real servers of the front end with this address and port: "10.244.1.2:8080*1".
std::vector<std::string> reals(const ServiceContents& contents, std::string_view address,
                               uint16_t port) {
  std::vector<std::string> list;
  for (const auto& front : contents.fronts) {
    if (front.server.key.ip != ip(address) || front.server.key.port != port) continue;
    for (const auto& real : contents.targets.at(front.targets)) {
      std::string text;
      net::append_endpoint(text, real.ip, real.port);
      list.push_back(text + "*" + std::to_string(real.weight));
    }
  }
  return list;
}

// The entries of one set: "10.96.0.1,tcp:80" and what else there is.
std::vector<std::string> entries(const ServiceContents& contents, SetId set) {
  std::vector<std::string> list;
  for (const auto& [in, entry] : contents.entries) {
    if (in != set) continue;
    std::string text = std::to_string(entry.port);
    if (type_of(set) != kernel::SetType::BitmapPort)
      text = entry.ip.str() + "," + std::string(net::lower_name(entry.protocol)) + ":" + text;
    if (entry.other != net::Cidr()) text += "," + entry.other.str();
    list.push_back(text);
  }
  return list;
}

std::vector<std::string> bound(const ServiceContents& contents) {
  std::vector<std::string> list;
  for (const auto& address : contents.bound)
    list.push_back(address.str());
  return list;
}

service web() { return service("default/web").cluster_ip("10.96.0.1").port("http", 80); }
// With a node port.
service open_web() {
  return service("default/web").cluster_ip("10.96.0.1").port("http", 80, 30080);
}
slice pods() {
  return slice("default/web", "a")
      .port("http", 8080)
      .ready("10.244.1.2", "node1")
      .ready("10.244.2.3", "node2");
}
slice remote_pods() {
  return slice("default/web", "a").port("http", 8080).ready("10.244.2.3", "node2");
}

TEST(IpvsContents, AClusterIpIsAServerAnEntryAndABoundAddress) {
  const auto all = contents(entry(web(), pods()));
  EXPECT_THAT(keys(all), ElementsAre("10.96.0.1:80/TCP"));
  EXPECT_THAT(reals(all, "10.96.0.1", 80), ElementsAre("10.244.1.2:8080*1", "10.244.2.3:8080*1"));
  EXPECT_THAT(entries(all, SetId::ClusterIp), ElementsAre("10.96.0.1,tcp:80"));
  EXPECT_THAT(bound(all), ElementsAre("10.96.0.1"));
  EXPECT_EQ(all.endpoints, 2U);
}

TEST(IpvsContents, AServiceWithoutPortsInThisFamilyIsEmpty) {
  EXPECT_TRUE(contents_of({build::key("default/web"), {}}, "rr", kNode).empty());
}

TEST(IpvsContents, AServiceWithoutEndpointsHasAServerWithoutRealOnes) {
  const auto all = contents(entry(web()));
  EXPECT_THAT(keys(all), ElementsAre("10.96.0.1:80/TCP"));
  EXPECT_THAT(reals(all, "10.96.0.1", 80), IsEmpty());
}

TEST(IpvsContents, LocalEndpointsAreInTheLoopBackSetReadyOrNot) {
  const auto all = contents(entry(web(), slice("default/web", "a")
                                             .port("http", 8080)
                                             .ready("10.244.1.2", "node1")
                                             .not_ready("10.244.1.3", "node1")
                                             .ready("10.244.2.3", "node2")));
  EXPECT_THAT(entries(all, SetId::LoopBack), ElementsAre("10.244.1.2,tcp:8080,10.244.1.2/32",
                                                         "10.244.1.3,tcp:8080,10.244.1.3/32"));
}

TEST(IpvsContents, ExternalIpsAreInTheSetOfTheirPolicy) {
  const auto cluster = contents(entry(web().external_ip("192.0.2.1"), pods()));
  EXPECT_THAT(entries(cluster, SetId::ExternalIp), ElementsAre("192.0.2.1,tcp:80"));
  EXPECT_THAT(entries(cluster, SetId::ExternalIpLocal), IsEmpty());
  const auto local = contents(entry(web().external_ip("192.0.2.1").local_external(), pods()));
  EXPECT_THAT(entries(local, SetId::ExternalIp), IsEmpty());
  EXPECT_THAT(entries(local, SetId::ExternalIpLocal), ElementsAre("192.0.2.1,tcp:80"));
  EXPECT_THAT(reals(local, "192.0.2.1", 80), ElementsAre("10.244.1.2:8080*1"));
  EXPECT_THAT(bound(local), ElementsAre("10.96.0.1", "192.0.2.1"));
}

TEST(IpvsContents, AnAddressOfTheNodeIsNotBound) {
  const auto all =
      contents(entry(web().external_ip("172.31.0.11").load_balancer("192.168.77.1"), pods()));
  EXPECT_THAT(keys(all),
              ElementsAre("10.96.0.1:80/TCP", "172.31.0.11:80/TCP", "192.168.77.1:80/TCP"));
  EXPECT_THAT(bound(all), ElementsAre("10.96.0.1"));
}

TEST(IpvsContents, AClusterIpIsBoundEvenIfTheNodeHasIt) {
  const NodeAddresses odd{.own = {ip("10.96.0.1")}, .node_ports = {}};
  EXPECT_THAT(bound(contents(entry(web(), pods()), odd)), ElementsAre("10.96.0.1"));
}

TEST(IpvsContents, LoadBalancerIpsOfPolicyLocalAreInBothSets) {
  const auto all = contents(entry(web().load_balancer("192.0.2.1").local_external(), pods()));
  EXPECT_THAT(entries(all, SetId::LoadBalancer), ElementsAre("192.0.2.1,tcp:80"));
  EXPECT_THAT(entries(all, SetId::LoadBalancerLocal), ElementsAre("192.0.2.1,tcp:80"));
  EXPECT_THAT(entries(all, SetId::LoadBalancerFirewall), IsEmpty());
  EXPECT_THAT(bound(all), ElementsAre("10.96.0.1", "192.0.2.1"));
}

TEST(IpvsContents, SourceRangesWithoutTheNodeGuardTheAddressFromIt) {
  const auto all = contents(entry(web()
                                      .load_balancer("192.0.2.1")
                                      .source_range("203.0.113.0/25")
                                      .source_range("198.51.100.7/32"),
                                  pods()));
  EXPECT_THAT(entries(all, SetId::LoadBalancerFirewall), ElementsAre("192.0.2.1,tcp:80"));
  EXPECT_THAT(entries(all, SetId::LoadBalancerSourceCidr),
              ElementsAre("192.0.2.1,tcp:80,198.51.100.7/32", "192.0.2.1,tcp:80,203.0.113.0/25"));
  EXPECT_THAT(entries(all, SetId::LoadBalancerSourceIp), IsEmpty());
  EXPECT_THAT(all.guards, ElementsAre(Guard{ip("192.0.2.1"), net::Protocol::Tcp, 80}));
}

TEST(IpvsContents, SourceRangesWithTheNodeLetItInByTheAddressItself) {
  const auto all =
      contents(entry(web().load_balancer("192.0.2.1").source_range("172.31.0.0/24"), pods()));
  EXPECT_THAT(entries(all, SetId::LoadBalancerSourceIp),
              ElementsAre("192.0.2.1,tcp:80,192.0.2.1/32"));
  EXPECT_THAT(all.guards, IsEmpty());
}

TEST(IpvsContents, ANetworkOfLengthZeroIsWrittenAsItsHalves) {
  auto plan = plan_of(entry(web().load_balancer("192.0.2.1"), pods()));
  plan.ports.at(0).source_ranges = {cidr("0.0.0.0/0")};
  EXPECT_THAT(entries(contents_of(plan, "rr", kNode), SetId::LoadBalancerSourceCidr),
              ElementsAre("192.0.2.1,tcp:80,0.0.0.0/1", "192.0.2.1,tcp:80,128.0.0.0/1"));
  plan.ports.at(0).source_ranges = {cidr("::/0")};
  EXPECT_THAT(entries(contents_of(plan, "rr", kNode), SetId::LoadBalancerSourceCidr),
              ElementsAre("192.0.2.1,tcp:80,::/1", "192.0.2.1,tcp:80,8000::/1"));
}

TEST(IpvsContents, ANetworkOfLengthOneIsWrittenAsItIs) {
  const auto half = web().load_balancer("192.0.2.1").source_range("128.0.0.0/1");
  EXPECT_THAT(entries(contents(entry(half, pods())), SetId::LoadBalancerSourceCidr),
              ElementsAre("192.0.2.1,tcp:80,128.0.0.0/1"));
}

TEST(IpvsContents, AnAddressThatIsNamedTwiceHasOneGuard) {
  const auto twice =
      web().load_balancer("192.0.2.1").load_balancer("192.0.2.1").source_range("203.0.113.0/25");
  EXPECT_THAT(contents(entry(twice, pods())).guards,
              ElementsAre(Guard{ip("192.0.2.1"), net::Protocol::Tcp, 80}));
}

TEST(IpvsContents, ANodePortIsAServerOnEachNodeAddressAndIsNotBound) {
  const auto all = contents(entry(open_web().node_port_type(), pods()));
  EXPECT_THAT(keys(all),
              ElementsAre("10.96.0.1:80/TCP", "172.31.0.11:30080/TCP", "192.168.77.1:30080/TCP"));
  EXPECT_THAT(entries(all, SetId::NodePortTcp), ElementsAre("30080"));
  EXPECT_THAT(entries(all, SetId::NodePortLocalTcp), IsEmpty());
  EXPECT_THAT(bound(all), ElementsAre("10.96.0.1"));
}

TEST(IpvsContents, ANodePortOfPolicyLocalIsInBothSets) {
  const auto all = contents(entry(open_web().node_port_type().local_external(), pods()));
  EXPECT_THAT(entries(all, SetId::NodePortTcp), ElementsAre("30080"));
  EXPECT_THAT(entries(all, SetId::NodePortLocalTcp), ElementsAre("30080"));
  EXPECT_THAT(reals(all, "172.31.0.11", 30080), ElementsAre("10.244.1.2:8080*1"));
  EXPECT_THAT(reals(all, "10.96.0.1", 80), ElementsAre("10.244.1.2:8080*1", "10.244.2.3:8080*1"));
}

TEST(IpvsContents, NodePortsOfUdpAndSctpHaveSetsOfTheirOwn) {
  const auto all = contents(entry(service("default/web")
                                      .cluster_ip("10.96.0.1")
                                      .port("dns", 53, 30053, kUdp)
                                      .port("sig", 99, 30099, kSctp)
                                      .node_port_type()
                                      .local_external()));
  EXPECT_THAT(entries(all, SetId::NodePortUdp), ElementsAre("30053"));
  EXPECT_THAT(entries(all, SetId::NodePortLocalUdp), ElementsAre("30053"));
  for (const SetId set : {SetId::NodePortSctp, SetId::NodePortLocalSctp})
    EXPECT_THAT(entries(all, set),
                ElementsAre("172.31.0.11,sctp:30099", "192.168.77.1,sctp:30099"));
  EXPECT_THAT(entries(all, SetId::NodePortTcp), IsEmpty());
}

TEST(IpvsContents, HealthChecksHaveAnEntry) {
  const auto balanced = open_web().load_balancer("192.0.2.1").local_external().health_check(32000);
  EXPECT_THAT(entries(contents(entry(balanced, pods())), SetId::HealthCheckNodePort),
              ElementsAre("32000"));
  EXPECT_THAT(entries(contents(entry(web(), pods())), SetId::HealthCheckNodePort), IsEmpty());
}

TEST(IpvsContents, WithoutNodeAddressesThereAreNeitherNodePortsNorTheirHealthChecks) {
  const NodeAddresses nowhere{.own = kNode.own, .node_ports = {}};
  const auto with = open_web().load_balancer("192.0.2.1").local_external().health_check(32000);
  const auto all = contents(entry(with, pods()), nowhere);
  EXPECT_THAT(keys(all), ElementsAre("10.96.0.1:80/TCP", "192.0.2.1:80/TCP"));
  EXPECT_THAT(entries(all, SetId::NodePortTcp), IsEmpty());
  EXPECT_THAT(entries(all, SetId::HealthCheckNodePort), IsEmpty());
  // A port that has no node port does not need the addresses.
  const auto without = web().load_balancer("192.0.2.1").local_external().health_check(32000);
  EXPECT_THAT(entries(contents(entry(without, pods()), nowhere), SetId::HealthCheckNodePort),
              ElementsAre("32000"));
}

TEST(IpvsContents, PolicyLocalWithoutLocalEndpointsFallsBackToTheOthers) {
  const auto external =
      contents(entry(web().external_ip("192.0.2.1").local_external(), remote_pods()));
  EXPECT_THAT(reals(external, "192.0.2.1", 80), ElementsAre("10.244.2.3:8080*1"));
  const auto both = contents(
      entry(web().external_ip("192.0.2.1").local_external().local_internal(), remote_pods()));
  EXPECT_THAT(reals(both, "10.96.0.1", 80), ElementsAre("10.244.2.3:8080*1"));
}

TEST(IpvsContents, AnInternalServiceOfPolicyLocalWithoutLocalEndpointsHasNone) {
  EXPECT_THAT(reals(contents(entry(web().local_internal(), remote_pods())), "10.96.0.1", 80),
              IsEmpty());
}

TEST(IpvsContents, InternalPolicyLocalIsForTheClusterIpOnly) {
  const auto all = contents(entry(web().external_ip("192.0.2.1").local_internal(), pods()));
  EXPECT_THAT(reals(all, "10.96.0.1", 80), ElementsAre("10.244.1.2:8080*1"));
  EXPECT_THAT(reals(all, "192.0.2.1", 80), ElementsAre("10.244.1.2:8080*1", "10.244.2.3:8080*1"));
}

TEST(IpvsContents, FrontEndsWithTheSameEndpointsShareThem) {
  const auto all = contents(entry(open_web().node_port_type(), pods()));
  EXPECT_EQ(all.targets.size(), 1U);
}

TEST(IpvsContents, AffinityIsPersistenceOfAllFrontEnds) {
  const auto all = contents(entry(open_web().node_port_type().affinity(600), pods()));
  for (const auto& front : all.fronts) {
    EXPECT_EQ(front.server.flags, VirtualServer::kPersistent);
    EXPECT_EQ(front.server.timeout_s, 600U);
  }
  const auto plain = contents(entry(web(), pods()));
  EXPECT_EQ(plain.fronts.at(0).server.flags, 0U);
  EXPECT_EQ(plain.fronts.at(0).server.timeout_s, 0U);
}

TEST(IpvsContents, MaglevHashesPortsToo) {
  const auto hashed = contents(entry(web().affinity(600), pods()), kNode, "mh").fronts.at(0).server;
  EXPECT_EQ(hashed.scheduler, "mh");
  EXPECT_EQ(hashed.flags, VirtualServer::kPersistent | VirtualServer::kHashesPort);
  EXPECT_EQ(contents(entry(web(), pods()), kNode, "sh").fronts.at(0).server.flags, 0U);
}

TEST(IpvsContents, RealServersHaveTheWeightsOfEndpoints) {
  auto plan = plan_of(entry(web(), pods()));
  plan.ports.at(0).endpoints.at(1).weight = 7;
  EXPECT_THAT(reals(contents_of(plan, "wrr", kNode), "10.96.0.1", 80),
              ElementsAre("10.244.1.2:8080*1", "10.244.2.3:8080*7"));
}

TEST(IpvsContents, TwoEndpointsOfOneAddressAndPortAreOneRealServer) {
  auto plan = plan_of(entry(web(), remote_pods()));
  plan.ports.at(0).endpoints.push_back(plan.ports.at(0).endpoints.at(0));
  EXPECT_THAT(reals(contents_of(plan, "rr", kNode), "10.96.0.1", 80),
              ElementsAre("10.244.2.3:8080*1"));
}

TEST(IpvsContents, OfTwoPortsWithOneFrontEndTheFirstHasIt) {
  const auto all =
      contents(entry(service("default/web").cluster_ip("10.96.0.1").port("b", 80).port("a", 80),
                     slice("default/web", "a").port("a", 1111).ready("10.244.2.3"),
                     slice("default/web", "b").port("b", 2222).ready("10.244.2.3")));
  EXPECT_THAT(keys(all), ElementsAre("10.96.0.1:80/TCP"));
  EXPECT_THAT(reals(all, "10.96.0.1", 80), ElementsAre("10.244.2.3:1111*1"));
  EXPECT_THAT(entries(all, SetId::ClusterIp), ElementsAre("10.96.0.1,tcp:80"));
}

TEST(IpvsContents, ListsAreSortedAndHaveEachOnce) {
  const auto all = contents(entry(service("default/web")
                                      .cluster_ip("10.96.0.9")
                                      .port("z", 443)
                                      .port("a", 80)
                                      .external_ip("192.0.2.9")
                                      .external_ip("192.0.2.1")
                                      .external_ip("192.0.2.9")));
  EXPECT_TRUE(std::ranges::is_sorted(all.entries));
  EXPECT_THAT(bound(all), ElementsAre("10.96.0.9", "192.0.2.1", "192.0.2.9"));
  EXPECT_EQ(all.fronts.size(), 6U);
}

}  // namespace
}  // namespace ipvs
