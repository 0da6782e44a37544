#include "plan/flows.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "support/builders.h"

namespace plan {
namespace {

using build::ip;
using build::service;
using build::slice;
using net::Flow;
using net::Protocol;

constexpr auto kUdp = Protocol::Udp;

Context here() {
  Context context;
  context.node_name = "node1";
  return context;
}

model::Snapshot snapshot(const std::vector<model::ServiceEntry>& entries) {
  model::Snapshot made;
  for (const auto& entry : entries)
    made.services.put(std::make_shared<const model::ServiceEntry>(entry));
  return made;
}

service dns() {
  return service("kube-system/dns").cluster_ip("10.96.0.10").port("dns", 53, 30053, kUdp);
}
slice behind(std::string_view name = "kube-system/dns") {
  return slice(name, "s-1").port("dns", 8053, kUdp);
}

struct To {
  std::string_view ip;
  uint16_t port;
};
// From a client to a front end, answered by somebody.
Flow flow(To destination, To answers, Protocol protocol = kUdp) {
  const auto client = ip("10.244.1.2");
  return {protocol,
          {client, ip(destination.ip), 40000, destination.port},
          {ip(answers.ip), client, answers.port, 40000}};
}
Flow direct(To destination) { return flow(destination, destination); }

constexpr To kVip{"10.96.0.10", 53};
constexpr To kNodePort{"172.31.0.11", 30053};
constexpr To kOne{"10.244.1.5", 8053};
constexpr To kTwo{"10.244.2.6", 8053};

FlowJudge judge(const model::Snapshot& now, const model::Snapshot* before = nullptr,
                const Context& context = here()) {
  return {before, now, context, {ip("172.31.0.11"), ip("127.0.0.1")}};
}
FlowJudge judge(const model::ServiceEntry& now) { return judge(snapshot({now})); }
FlowJudge change(const std::vector<model::ServiceEntry>& before,
                 const std::vector<model::ServiceEntry>& now) {
  const auto earlier = snapshot(before);
  return judge(snapshot(now), &earlier);
}

TEST(HasUdp, LooksForAPortInThisFamily) {
  EXPECT_TRUE(has_udp(build::entry(dns()), here()));
  EXPECT_FALSE(has_udp(build::entry(service("a/b").cluster_ip("10.96.0.1").port("", 53)), here()));
  EXPECT_FALSE(has_udp(build::entry(dns().skipped(model::SkipReason::Headless)), here()));
  EXPECT_FALSE(has_udp({build::key("a/b"), nullptr, {behind().ptr()}}, here()));
  Context v6 = here();
  v6.family = net::Family::V6;
  EXPECT_FALSE(has_udp(build::entry(dns()), v6));
}

TEST(FlowJudge, AFlowToAnEndpointStays) {
  const auto now = judge(build::entry(dns(), behind().ready("10.244.1.5")));
  EXPECT_FALSE(now.stale(flow(kVip, kOne)));
  EXPECT_FALSE(now.stale(flow(kNodePort, kOne)));
}

TEST(FlowJudge, AFlowToAnEndpointThatIsGoneGoes) {
  const auto now = judge(build::entry(dns(), behind().ready("10.244.1.5")));
  EXPECT_TRUE(now.stale(flow(kVip, kTwo)));
  EXPECT_TRUE(now.stale(flow(kNodePort, kTwo)));
}

TEST(FlowJudge, AFlowToAnotherTargetPortGoes) {
  const auto now = judge(build::entry(dns(), behind().ready("10.244.1.5")));
  EXPECT_TRUE(now.stale(flow(kVip, {"10.244.1.5", 8054})));
}

TEST(FlowJudge, APortOfAnotherProtocolIsNoTarget) {
  const auto both = behind().port("dns", 9053, Protocol::Tcp).ready("10.244.1.5");
  const auto now = judge(build::entry(dns(), both));
  EXPECT_FALSE(now.stale(flow(kVip, kOne)));
  EXPECT_TRUE(now.stale(flow(kVip, {"10.244.1.5", 9053})));
}

TEST(FlowJudge, AFlowThatWasMadeBeforeThereWereEndpointsGoes) {
  const auto now = judge(build::entry(dns(), behind().ready("10.244.1.5")));
  EXPECT_TRUE(now.stale(direct(kVip)));
  EXPECT_TRUE(now.stale(direct(kNodePort)));
}

TEST(FlowJudge, EveryKindOfFrontEndCounts) {
  const auto now =
      judge(build::entry(dns().load_balancer("203.0.113.1").external_ip("198.51.100.1"),
                         behind().ready("10.244.1.5")));
  for (const To to : {kVip, kNodePort, To{"203.0.113.1", 53}, To{"198.51.100.1", 53}}) {
    EXPECT_FALSE(now.stale(flow(to, kOne))) << to.ip;
    EXPECT_TRUE(now.stale(flow(to, kTwo))) << to.ip;
  }
}

TEST(FlowJudge, ExternalIpsAreNoFrontEndsWhenTheirGateIsOff) {
  Context context = here();
  context.external_ips = false;
  const auto now = judge(
      snapshot({build::entry(dns().external_ip("198.51.100.1"), behind().ready("10.244.1.5"))}),
      nullptr, context);
  EXPECT_FALSE(now.stale(flow({"198.51.100.1", 53}, kTwo)));
}

TEST(FlowJudge, ANodePortIsOneOnlyOnThisNode) {
  const auto now = judge(build::entry(dns(), behind().ready("10.244.1.5")));
  EXPECT_TRUE(now.stale(flow({"127.0.0.1", 30053}, kTwo)));
  EXPECT_FALSE(now.stale(direct({"8.8.8.8", 30053})))
      << "a resolver outside that uses the same port";
  EXPECT_FALSE(now.stale(direct({"172.31.0.12", 30053}))) << "the node port of a neighbour";
}

TEST(FlowJudge, AServiceMayHaveNoNodePort) {
  const auto now = judge(
      build::entry(service("kube-system/dns").cluster_ip("10.96.0.10").port("dns", 53, 0, kUdp),
                   behind().ready("10.244.1.5")));
  EXPECT_FALSE(now.stale(flow({"172.31.0.11", 0}, kTwo)));
}

TEST(FlowJudge, OtherDestinationsAreNobodysBusiness) {
  const auto now = judge(build::entry(dns(), behind().ready("10.244.1.5")));
  EXPECT_FALSE(now.stale(direct(kTwo)));
  EXPECT_FALSE(now.stale(flow({"10.96.0.10", 54}, kTwo)));
  EXPECT_FALSE(now.stale(flow({"10.96.0.11", 53}, kTwo)));
}

TEST(FlowJudge, OtherProtocolsAreLeftAlone) {
  const auto now = judge(build::entry(dns(), behind().ready("10.244.1.5")));
  EXPECT_FALSE(now.stale(flow(kVip, kTwo, Protocol::Tcp)));
  EXPECT_FALSE(now.stale(flow(kVip, kTwo, Protocol::Sctp)));
  const auto sctp =
      judge(build::entry(service("a/b").cluster_ip("10.96.0.10").port("dns", 53, 0, Protocol::Sctp),
                         slice("a/b", "s").port("dns", 8053, Protocol::Sctp).ready("10.244.1.5")));
  EXPECT_FALSE(sctp.stale(flow(kVip, kTwo)));
  EXPECT_FALSE(sctp.stale(flow(kVip, kTwo, Protocol::Sctp)));
  EXPECT_TRUE(sctp.idle());
}

TEST(FlowJudge, EndpointsThatStillServeKeepTheirFlows) {
  const auto now = judge(build::entry(
      dns(),
      behind().draining("10.244.1.5", "node2").endpoint("10.244.2.6", "", false, true, false)));
  EXPECT_FALSE(now.stale(flow(kVip, kOne)));
  EXPECT_FALSE(now.stale(flow(kVip, kTwo)));
}

TEST(FlowJudge, EndpointsThatArePublishedUnreadyKeepTheirFlows) {
  const auto now =
      judge(build::entry(dns(), behind().endpoint("10.244.1.5", "", true, false, false)));
  EXPECT_FALSE(now.stale(flow(kVip, kOne)));
}

TEST(FlowJudge, EndpointsThatDoNotServeLoseTheirFlows) {
  const auto now = judge(build::entry(dns(), behind().not_ready("10.244.1.5").ready("10.244.2.6")));
  EXPECT_TRUE(now.stale(flow(kVip, kOne)));
}

TEST(FlowJudge, TrafficPoliciesDoNotCount) {
  const auto now = judge(build::entry(dns().node_port_type().local_external().local_internal(),
                                      behind().ready("10.244.2.6", "node2")));
  EXPECT_FALSE(now.stale(flow(kVip, kTwo)));
  EXPECT_FALSE(now.stale(flow(kNodePort, kTwo)));
}

TEST(FlowJudge, WithoutEndpointsOnlyRedirectedFlowsGo) {
  const auto now = judge(build::entry(dns(), behind().not_ready("10.244.1.5")));
  EXPECT_TRUE(now.stale(flow(kVip, kOne))) << "the next packet is refused";
  EXPECT_TRUE(now.stale(flow(kNodePort, kOne)));
  EXPECT_FALSE(now.stale(direct(kVip))) << "there is nowhere else to go";
}

TEST(FlowJudge, TheSlicesOfTheOtherFamilyDoNotCount) {
  const auto v6 = slice("kube-system/dns", "v6", net::Family::V6).port("dns", 8053, kUdp);
  const auto now = judge(build::entry(dns(), slice(v6).ready("fd00::5")));
  EXPECT_FALSE(now.stale(direct(kVip))) << "no endpoints in this one";
}

TEST(FlowJudge, JudgesIpv6) {
  Context v6 = here();
  v6.family = net::Family::V6;
  const auto now = snapshot(
      {build::entry(service("a/b").cluster_ip("fd00:10:96::10").port("dns", 53, 30053, kUdp),
                    slice("a/b", "v6", net::Family::V6).port("dns", 8053, kUdp).ready("fd00::5"))});
  const FlowJudge judge(nullptr, now, v6, {ip("fd00:31::11")});
  for (const To to : {To{"fd00:10:96::10", 53}, To{"fd00:31::11", 30053}}) {
    EXPECT_FALSE(judge.stale(flow(to, {"fd00::5", 8053})));
    EXPECT_TRUE(judge.stale(flow(to, {"fd00::6", 8053})));
  }
  EXPECT_FALSE(judge.stale(direct({"fd00:31::12", 30053})));
}

TEST(FlowJudge, AtStartAServiceThatIsNotThereIsNotKnown) {
  EXPECT_FALSE(judge(model::Snapshot()).stale(flow(kVip, kOne)));
  EXPECT_TRUE(judge(model::Snapshot()).idle());
}

model::ServiceEntry with_load_balancer() {
  return build::entry(dns().load_balancer("203.0.113.1"),
                      behind().ready("10.244.1.5").not_ready("10.244.2.6"));
}

TEST(FlowJudge, FlowsOfADeletedServiceGo) {
  const auto deleted = change({with_load_balancer()}, {});
  for (const To to : {kVip, kNodePort, To{"203.0.113.1", 53}}) {
    EXPECT_TRUE(deleted.stale(flow(to, kOne))) << to.ip;
    EXPECT_TRUE(deleted.stale(flow(to, kTwo))) << "not serving, but its flow may be older";
    EXPECT_FALSE(deleted.stale(flow(to, {"10.244.9.9", 8053}))) << "somebody else redirected it";
    EXPECT_FALSE(deleted.stale(direct(to)));
  }
  EXPECT_FALSE(deleted.idle());
}

TEST(FlowJudge, FlowsToFrontEndsThatWereRemovedGo) {
  const auto plain =
      service("kube-system/dns").cluster_ip("10.96.0.10").port("dns", 53, 30054, kUdp);
  const auto removed =
      change({with_load_balancer()}, {build::entry(plain, behind().ready("10.244.1.5"))});
  EXPECT_TRUE(removed.stale(flow({"203.0.113.1", 53}, kOne)));
  EXPECT_TRUE(removed.stale(flow(kNodePort, kOne)));
  EXPECT_FALSE(removed.stale(flow(kVip, kOne)));
}

TEST(FlowJudge, FlowsOfAServiceThatIsNoLongerOursGo) {
  const auto removed =
      change({with_load_balancer()}, {build::entry(dns().skipped(model::SkipReason::OtherProxy))});
  EXPECT_TRUE(removed.stale(flow(kVip, kOne)));
}

TEST(FlowJudge, ASliceThatGoesAndNeverHadAServiceIsNothing) {
  const auto removed = change({{build::key("kube-system/dns"), nullptr, {behind().ptr()}}}, {});
  EXPECT_TRUE(removed.idle());
}

TEST(FlowJudge, AFrontEndThatMovedToAnotherServiceIsJudgedByThatOne) {
  const auto other = service("a/other").cluster_ip("10.96.0.10").port("dns", 53, 30053, kUdp);
  const auto moved =
      change({with_load_balancer()}, {build::entry(other, behind("a/other").ready("10.244.1.5"))});
  EXPECT_FALSE(moved.stale(flow(kVip, kOne)));
  EXPECT_FALSE(moved.stale(flow(kNodePort, kOne)));
  EXPECT_TRUE(moved.stale(flow(kVip, kTwo)));
}

TEST(FlowJudge, OfAFrontEndWithTwoOwnersTheEndpointsOfBothCount) {
  const auto shared = judge(snapshot({build::entry(service("a/a")
                                                       .cluster_ip("10.96.0.1")
                                                       .external_ip("198.51.100.1")
                                                       .port("dns", 53, 0, kUdp),
                                                   behind("a/a").ready("10.244.1.5")),
                                      build::entry(service("a/b")
                                                       .cluster_ip("10.96.0.2")
                                                       .external_ip("198.51.100.1")
                                                       .port("dns", 53, 0, kUdp),
                                                   behind("a/b").ready("10.244.2.6")),
                                      build::entry(service("a/c")
                                                       .cluster_ip("10.96.0.3")
                                                       .external_ip("198.51.100.1")
                                                       .port("dns", 53, 0, kUdp))}));
  constexpr To kShared{"198.51.100.1", 53};
  EXPECT_FALSE(shared.stale(flow(kShared, kOne)));
  EXPECT_FALSE(shared.stale(flow(kShared, kTwo)));
  EXPECT_TRUE(shared.stale(flow(kShared, {"10.244.9.9", 8053})));
  EXPECT_TRUE(shared.stale(direct(kShared)));
  EXPECT_TRUE(shared.stale(flow({"10.96.0.1", 53}, kTwo))) << "this one is of the first alone";
}

TEST(FlowJudge, AnAddressOfThisNodeThatIsAFrontEndItselfComesBeforeTheNodePort) {
  const auto now = judge(snapshot({build::entry(dns(), behind().ready("10.244.1.5")),
                                   build::entry(service("a/b")
                                                    .cluster_ip("10.96.0.2")
                                                    .external_ip("172.31.0.11")
                                                    .port("dns", 30053, 0, kUdp),
                                                behind("a/b").ready("10.244.2.6"))}));
  EXPECT_FALSE(now.stale(flow(kNodePort, kTwo)));
  EXPECT_TRUE(now.stale(flow(kNodePort, kOne)));
}

// Laws

// A cluster of few Services on few addresses, so that front ends and endpoints meet.
std::vector<model::ServiceEntry> random_cluster() {
  const auto small = [](int last) { return *rc::gen::inRange(0, last + 1); };
  const auto pod = [&] { return "10.244.0." + std::to_string(1 + small(5)); };
  std::vector<model::ServiceEntry> entries;
  for (int number = 0; number < 4; ++number) {
    if (small(3) == 0) continue;
    const std::string name = "ns/s" + std::to_string(number);
    service object(name);
    object.cluster_ip("10.96.0." + std::to_string(1 + number));
    object.port("dns", 53, static_cast<uint16_t>(small(1) * (30050 + small(2))),
                small(4) == 0 ? Protocol::Tcp : kUdp);
    if (small(1) == 0) object.external_ip("198.51.100." + std::to_string(1 + small(1)));
    if (small(6) == 0) object.skipped(model::SkipReason::OtherProxy);
    slice endpoints(name, "s");
    endpoints.port("dns", static_cast<uint16_t>(8053 + small(1)), kUdp);
    for (int count = small(3); count > 0; --count)
      endpoints.endpoint(pod(), "", small(1) == 0, small(1) == 0, small(1) == 0);
    entries.push_back(build::entry(object, endpoints));
  }
  return entries;
}

std::vector<net::Tuple> usable_flows(const model::ServiceEntry& entry) {
  std::vector<net::Tuple> found;  // the front end as destination, the endpoint as source
  if (!has_udp(entry, here())) return found;
  const auto& port = entry.service->ports.at(0);
  std::vector<std::pair<net::IpAddr, uint16_t>> front_ends{
      {*entry.service->cluster_ips[0], port.port}};
  for (const auto& one : entry.service->external_ips)
    front_ends.emplace_back(one, port.port);
  if (port.node_port != 0) front_ends.emplace_back(ip("172.31.0.11"), port.node_port);
  for (const auto& endpoint : entry.slices.at(0)->endpoints) {
    if (!endpoint.serving) continue;
    for (const auto& [address, number] : front_ends)
      found.push_back({endpoint.ip, address, entry.slices.at(0)->ports.at(0).port, number});
  }
  return found;
}

Flow as_flow(const net::Tuple& ends) {
  const auto client = ip("10.244.1.2");
  return {kUdp,
          {client, ends.destination, 40000, ends.destination_port},
          {ends.source, client, ends.source_port, 40000}};
}

Flow random_flow() {
  const auto pick = [](std::vector<std::string_view> from) {
    return *rc::gen::elementOf(std::move(from));
  };
  const To to{pick({"10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.4", "198.51.100.1",
                    "198.51.100.2", "172.31.0.11", "8.8.8.8"}),
              *rc::gen::element<uint16_t>(53, 30050, 30051, 30052)};
  const To answers{
      pick({"10.244.0.1", "10.244.0.2", "10.244.0.3", "10.244.0.4", "10.244.0.5", "10.244.0.6"}),
      *rc::gen::element<uint16_t>(8053, 8054)};
  return *rc::gen::inRange(0, 4) == 0 ? direct(to) : flow(to, answers);
}

RC_GTEST_PROP(FlowJudgeLaws, AFlowFromACurrentFrontEndToAServingEndpointStays, ()) {
  const auto before = snapshot(random_cluster());
  const auto entries = random_cluster();
  const auto judged = judge(snapshot(entries), &before);
  for (const auto& entry : entries) {
    for (const auto& ends : usable_flows(entry))
      RC_ASSERT(!judged.stale(as_flow(ends)));
  }
}

RC_GTEST_PROP(FlowJudgeLaws, WithoutAChangeTheSnapshotBeforeAddsNothing, ()) {
  const auto entries = snapshot(random_cluster());
  const auto one = random_flow();
  RC_ASSERT(judge(entries, &entries).stale(one) == judge(entries).stale(one));
}

RC_GTEST_PROP(FlowJudgeLaws, TheSnapshotBeforeOnlyAddsWhatItRedirectedItself, ()) {
  const auto earlier = random_cluster();
  const auto before = snapshot(earlier);
  const auto now = snapshot(random_cluster());
  const auto one = random_flow();
  if (judge(now).stale(one))
    RC_ASSERT(judge(now, &before).stale(one));
  else if (judge(now, &before).stale(one))
    RC_ASSERT(one.redirected());
}

RC_GTEST_PROP(FlowJudgeLaws, AServiceMoreNeverMakesAFlowOfAnotherFrontEndStale, ()) {
  auto entries = random_cluster();
  const auto one = random_flow();
  const bool alone = judge(snapshot(entries)).stale(one);
  entries.push_back(build::entry(service("z/new").cluster_ip("10.96.0.99").port("dns", 53, 0, kUdp),
                                 behind("z/new").ready("10.244.0.9")));
  RC_ASSERT(judge(snapshot(entries)).stale(one) == alone);
}

}  // namespace
}  // namespace plan
