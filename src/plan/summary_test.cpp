#include "plan/summary.h"

#include <gtest/gtest.h>

#include "support/builders.h"

namespace plan {
namespace {

using build::entry;
using build::service;
using build::slice;

Context here(net::Family family = net::Family::V4) {
  Context context;
  context.family = family;
  context.node_name = "node1";
  context.node_ip = build::ip("172.31.0.11");
  return context;
}

service web() { return service("default/web").cluster_ip("10.96.0.1").port("http", 80); }
service balancer() {
  return service("default/web")
      .cluster_ip("10.96.0.1")
      .port("http", 80, 30080)
      .port("https", 443, 30443)
      .load_balancer("192.0.2.1")
      .local_external()
      .health_check(32000);
}
slice endpoints(std::string name = "web-1", net::Family family = net::Family::V4) {
  return slice("default/web", std::move(name), family).port("http", 8080).port("https", 8443);
}

TEST(ServiceSummary, MostServicesHaveNothingToTell) {
  EXPECT_EQ(summarize(entry(web(), endpoints().ready("10.244.2.1", "node2")), here()),
            ServiceSummary());
  EXPECT_EQ(summarize({build::key("default/web"), nullptr, {}}, here()), ServiceSummary());
}

TEST(ServiceSummary, AServiceThatIsNotProxiedHasNothingToTell) {
  auto skipped = balancer().port("dns", 53, 0, net::Protocol::Udp);
  EXPECT_EQ(summarize(entry(skipped, endpoints()), here(net::Family::V6)), ServiceSummary());
  skipped.skipped(model::SkipReason::OtherProxy);
  EXPECT_EQ(summarize(entry(skipped, endpoints()), here()), ServiceSummary());
}

TEST(ServiceSummary, UdpIsTold) {
  EXPECT_TRUE(summarize(entry(web().port("dns", 53, 0, net::Protocol::Udp)), here()).udp);
  EXPECT_FALSE(summarize(entry(balancer()), here()).udp);
}

TEST(ServiceSummary, TheHealthPortNeedsALoadBalancerAndPolicyLocal) {
  EXPECT_EQ(summarize(entry(balancer()), here()).health_check_node_port, 32000);
  auto node_port = balancer();
  node_port.node_port_type();
  EXPECT_EQ(summarize(entry(node_port), here()).health_check_node_port, 0);
  const auto cluster = service("default/web")
                           .cluster_ip("10.96.0.1")
                           .port("http", 80)
                           .load_balancer("192.0.2.1")
                           .health_check(32000);
  EXPECT_EQ(summarize(entry(cluster), here()).health_check_node_port, 0);
}

TEST(ServiceSummary, LocalAddressesAreCountedOnceForAllPorts) {
  const auto summary = summarize(entry(balancer(),
                                       endpoints()
                                           .ready("10.244.1.1", "node1")
                                           .ready("10.244.1.2", "node1")
                                           .ready("10.244.2.1", "node2")
                                           .ready("10.244.3.1"),
                                       endpoints("web-2").ready("10.244.1.2", "node1")),
                                 here());
  EXPECT_EQ(summary.local_ready, 2U);
}

TEST(ServiceSummary, AnEndpointIsLocalByTheNameOfItsNode) {
  const auto local = [](std::string_view of, std::string node_name) {
    Context context = here();
    context.node_name = std::move(node_name);
    return summarize(entry(balancer(), endpoints().ready("10.244.1.1", of)), context).local_ready;
  };
  EXPECT_EQ(local("n", "n"), 1U);
  EXPECT_EQ(local("", ""), 0U) << "of an endpoint without a node nobody knows where it is";
}

TEST(ServiceSummary, OnlyReadyEndpointsAreCounted) {
  const auto only = [](const slice& one) {
    return summarize(entry(balancer(), one), here()).local_ready;
  };
  EXPECT_EQ(only(endpoints().draining("10.244.1.1", "node1")), 0U);
  EXPECT_EQ(only(endpoints().not_ready("10.244.1.1", "node1")), 0U);
  EXPECT_EQ(only(endpoints().ready("10.244.1.1", "node1").draining("10.244.1.2", "node1")), 1U);
}

TEST(ServiceSummary, EndpointsOfTheOtherFamilyOrWithoutPortsAreNotCounted) {
  const auto dual = balancer().cluster_ip("fd00:96::1");
  const auto object =
      entry(dual, endpoints().ready("10.244.1.1", "node1"),
            endpoints("web-6", net::Family::V6).ready("fd00::1", "node1").ready("fd00::2", "node1"),
            slice("default/web", "web-none").ready("10.244.1.9", "node1"));
  EXPECT_EQ(summarize(object, here()).local_ready, 1U);
  EXPECT_EQ(summarize(object, here(net::Family::V6)).local_ready, 2U);
}

TEST(ServiceSummary, NothingIsCountedWithoutAHealthPort) {
  const auto object = entry(web().local_internal(), endpoints().ready("10.244.1.1", "node1"));
  EXPECT_EQ(summarize(object, here()).local_ready, 0U);
}

// Ports without a local endpoint: {internal, external}.
std::pair<uint32_t, uint32_t> without_local(const service& object, const slice& one) {
  const auto summary = summarize(entry(object, one), here());
  return {summary.internal_without_local, summary.external_without_local};
}
using Counts = std::pair<uint32_t, uint32_t>;

TEST(ServiceSummary, PortsThatCannotKeepTrafficHereAreCounted) {
  const auto remote = endpoints().ready("10.244.2.1", "node2");
  EXPECT_EQ(without_local(balancer(), remote), Counts(0, 2));
  EXPECT_EQ(without_local(web().local_internal(), remote), Counts(1, 0));
  EXPECT_EQ(without_local(balancer().local_internal(), remote), Counts(2, 2));
}

TEST(ServiceSummary, PortsWithoutAnyEndpointAreNotCounted) {
  EXPECT_EQ(without_local(balancer().local_internal(), endpoints()), Counts(0, 0));
  EXPECT_EQ(without_local(balancer(), endpoints().not_ready("10.244.2.1", "node2")), Counts(0, 0));
}

TEST(ServiceSummary, ALastResortOnThisNodeIsALocalEndpoint) {
  const auto draining = endpoints().draining("10.244.1.1", "node1");
  EXPECT_EQ(without_local(balancer().local_internal(), draining), Counts(0, 0));
}

TEST(ServiceSummary, APortThatNobodyOutsideCanReachIsNotCountedAsExternal) {
  const auto hidden = web().node_port_type().local_external().local_internal();
  EXPECT_EQ(without_local(hidden, endpoints().ready("10.244.2.1", "node2")), Counts(1, 0));
}

}  // namespace
}  // namespace plan
