#include "backend/nftables/elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/nftables/affinity.h"
#include "backend/nftables/fingerprint.h"
#include "backend/nftables/text.h"
#include "support/builders.h"

namespace nftables {
namespace {

using build::service;
using build::slice;
using net::Family;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using namespace std::chrono_literals;

plan::Context here() {
  plan::Context context;
  context.node_name = "node1";
  context.node_ip = build::ip("172.31.0.11");
  return context;
}

service web() { return service("default/web").cluster_ip("10.96.0.1").port("http", 80); }
slice endpoints() { return slice("default/web", "web-1").port("http", 8080); }
slice two() { return endpoints().ready("10.244.0.1", "node1").ready("10.244.0.2", "node2"); }

// "set: element" of all, comments left out.
std::vector<std::string> lines(const service& object, const slice& list) {
  auto plan = plan::compile_service(build::entry(object, list), here());
  ServiceElements elements;
  render_service(plan, elements);
  std::vector<std::string> out;
  const auto add = [&](Element element) {
    element.comment = {};
    out.push_back(std::string(name(element.set)) + ": " + element_text(element, Family::V4));
  };
  for (const auto& element : elements.elements)
    add(element);
  for (const auto& element : elements.shared)
    add(element);
  return out;
}

TEST(NftablesElements, OfAClusterIp) {
  EXPECT_THAT(lines(web(), two()),
              UnorderedElementsAre(
                  "cluster-ips: 10.96.0.1", "service-ips: 10.96.0.1 . tcp . 80 : goto endpoints/2",
                  "endpoints: 10.96.0.1 . tcp . 80 . 0x00000000 : 10.244.0.1 . 8080",
                  "endpoints: 10.96.0.1 . tcp . 80 . 0x00000001 : 10.244.0.2 . 8080",
                  "hairpin-connections: 10.244.0.1 . 10.244.0.1 . tcp . 8080"));
}

TEST(NftablesElements, WithoutEndpointsEverythingIsRefused) {
  auto object = service("default/web").cluster_ip("10.96.0.1").port("http", 80, 30080);
  object.load_balancer("203.0.113.1").external_ip("198.51.100.1");
  EXPECT_THAT(
      lines(object, endpoints()),
      UnorderedElementsAre("cluster-ips: 10.96.0.1",
                           "no-endpoint-services: 10.96.0.1 . tcp . 80 : goto reject-chain",
                           "no-endpoint-services: 203.0.113.1 . tcp . 80 : goto reject-chain",
                           "no-endpoint-services: 198.51.100.1 . tcp . 80 : goto reject-chain",
                           "no-endpoint-nodeports: tcp . 30080 : goto reject-chain"));
}

TEST(NftablesElements, LocalPolicyWithoutLocalEndpointsServesTheNodeAndDropsOthers) {
  EXPECT_THAT(lines(web().load_balancer("203.0.113.1").local_external(),
                    endpoints().ready("10.244.1.1", "node2")),
              UnorderedElementsAre(
                  "cluster-ips: 10.96.0.1", "service-ips: 10.96.0.1 . tcp . 80 : goto endpoints/1",
                  "endpoints: 10.96.0.1 . tcp . 80 . 0x00000000 : 10.244.1.1 . 8080",
                  "service-ips: 203.0.113.1 . tcp . 80 : goto local/1/0",
                  "endpoints: 203.0.113.1 . tcp . 80 . 0x00000000 : 10.244.1.1 . 8080",
                  "no-endpoint-services: 203.0.113.1 . tcp . 80 : drop"));
}

TEST(NftablesElements, LocalPolicyHasBothLists) {
  const auto found = lines(web().load_balancer("203.0.113.1").local_external(), two());
  EXPECT_THAT(found, testing::IsSupersetOf(
                         {"service-ips: 203.0.113.1 . tcp . 80 : goto local/2/1",
                          "endpoints: 203.0.113.1 . tcp . 80 . 0x00000001 : 10.244.0.2 . 8080",
                          "endpoints: 203.0.113.1 . tcp . 80 . 0x00100000 : 10.244.0.1 . 8080"}));
}

TEST(NftablesElements, SourceRangesAreApartFromEachOther) {
  EXPECT_THAT(lines(web()
                        .load_balancer("203.0.113.1")
                        .source_range("172.31.0.0/24")
                        .source_range("172.31.0.128/25")
                        .source_range("8.8.8.8/32"),
                    two()),
              testing::IsSupersetOf({"firewall-ips: 203.0.113.1 . tcp . 80 : goto source-ranges",
                                     "allowed-sources: 203.0.113.1 . tcp . 80 . 172.31.0.0/24",
                                     "allowed-sources: 203.0.113.1 . tcp . 80 . 8.8.8.8",
                                     "allowed-sources: 203.0.113.1 . tcp . 80 . 203.0.113.1"}));
}

TEST(NftablesElements, TheWiderRangeStaysWhereverItStands) {
  auto found = lines(
      web().load_balancer("203.0.113.1").source_range("8.8.8.128/25").source_range("8.8.8.0/24"),
      two());
  std::erase_if(found, [](const auto& line) { return !line.starts_with("allowed-sources: "); });
  EXPECT_THAT(found, ElementsAre("allowed-sources: 203.0.113.1 . tcp . 80 . 8.8.8.0/24"));
}

TEST(NftablesElements, AnAddressThatIsThereTwiceIsThereOnce) {
  const auto found = lines(web().load_balancer("203.0.113.1").external_ip("203.0.113.1"), two());
  EXPECT_EQ(std::ranges::count(found, "service-ips: 203.0.113.1 . tcp . 80 : goto masquerade/2"),
            1);
}

TEST(NftablesElements, NoElementIsThereTwice) {
  auto object = web().load_balancer("203.0.113.1").load_balancer("203.0.113.1");
  auto found = lines(
      object.external_ip("198.51.100.1").external_ip("198.51.100.1").source_range("172.31.0.0/24"),
      two());
  std::ranges::sort(found);
  EXPECT_THAT(std::ranges::adjacent_find(found), found.end());
}

TEST(NftablesElements, SessionAffinityIsRememberedByTimeOut) {
  auto object = service("default/web").cluster_ip("10.96.0.1").port("http", 80, 30080);
  object.node_port_type().affinity(600);
  EXPECT_THAT(
      lines(object, two()),
      testing::IsSupersetOf({"service-ips: 10.96.0.1 . tcp . 80 : goto endpoints/2/sticky",
                             "sticky-services: 10.96.0.1 . tcp . 80 : goto remember-600",
                             "service-nodeports: tcp . 30080 : goto nodeport/masquerade/2/sticky",
                             "sticky-nodeports: tcp . 30080 : goto remember-600"}));
}

TEST(NftablesElements, CommentsHoldTheNamesOfTheLongestService) {
  const std::string name = std::string(63, 'n') + "/" + std::string(63, 's');
  const auto plan = plan::compile_service(
      build::entry(service(name).cluster_ip("10.96.0.1").port(std::string(63, 'p'), 80)), here());
  ServiceElements elements;
  render_service(plan, elements);
  EXPECT_EQ(elements.elements.front().comment, name + ":");
}

TEST(NftablesElements, ServiceCidrsAreOfOneFamily) {
  const std::vector<net::Cidr> blocks{build::cidr("10.96.0.0/12"), build::cidr("fd00:96::/112"),
                                      build::cidr("10.97.0.0/16")};
  std::vector<std::string> found;
  for (const auto& element : render_node({}, std::vector{build::ip("172.31.0.11")}, blocks))
    found.push_back(std::string(name(element.set)) + ": " + element_text(element, Family::V4));
  EXPECT_THAT(found, ElementsAre("nodeport-ips: 172.31.0.11", "service-cidrs: 10.96.0.0/12"));
}

TEST(NftablesElements, ServiceCidrsOfIpv6AreRangesToo) {
  const std::vector<net::Cidr> blocks{build::cidr("fd00:96::/108"), build::cidr("fd00:97::5/128")};
  std::vector<std::string> found;
  for (const auto& element : render_node({.family = Family::V6}, {}, blocks))
    found.push_back(std::string(name(element.set)) + ": " + element_text(element, Family::V6));
  EXPECT_THAT(found,
              UnorderedElementsAre("service-cidrs: fd00:96::/108", "service-cidrs: fd00:97::5"));
}

TEST(NftablesElements, OfAServiceCanBeCleared) {
  const auto plan = plan::compile_service(build::entry(web(), two()), here());
  ServiceElements elements;
  render_service(plan, elements);
  elements.clear();
  EXPECT_THAT(elements.elements, IsEmpty());
  EXPECT_THAT(elements.fronts, IsEmpty());
  EXPECT_THAT(elements.shared, IsEmpty());
}

TEST(NftablesBytes, ArePaddedWithZeros) {
  Bytes bytes;
  bytes.put(net::Protocol::Udp);
  bytes.put_port(0x0102);
  EXPECT_THAT(bytes.view(), ElementsAre(17, 0, 0, 0, 1, 2, 0, 0));
}

TEST(NftablesFingerprint, DoesNotDependOnTheOrder) {
  auto plan = plan::compile_service(build::entry(web(), two()), here());
  ServiceElements elements;
  render_service(plan, elements);
  Fingerprint there;
  Fingerprint back;
  for (const auto& element : elements.elements)
    there.add(element);
  for (auto element = elements.elements.rbegin(); element != elements.elements.rend(); ++element)
    back.add(*element);
  EXPECT_EQ(there, back);
  back.remove(elements.elements.front());
  EXPECT_NE(there, back);
  EXPECT_NE(there.element().key, back.element().key);
}

TEST(NftablesFingerprint, NoticesEveryPart) {
  Element base{.set = SetId::ServiceIps};
  base.key.put_port(80);
  std::vector<Element> others(6, base);
  others[0].set = SetId::FirewallIps;
  others[1].key.put_port(81);
  others[2].key_end.put_port(80);
  others[3].target.kind = Target::Kind::Reject;
  others[4].value.put_mark(0);
  others[5].comment = "x";
  Fingerprint one;
  one.add(base);
  for (const auto& other : others) {
    Fingerprint two;
    two.add(other);
    EXPECT_NE(one, two) << &other - others.data();
  }
}

class Judging : public testing::Test {
 protected:
  Judging() {
    auto object = web().load_balancer("203.0.113.1").local_external().affinity(600);
    plan_ = plan::compile_service(build::entry(object, two()), here());
    render_service(plan_, elements_);
    for (const auto& front : elements_.fronts)
      judge_.add(front.id, elements_.of(front));
  }

  static AffinityEntry entry(const char* vip, const char* endpoint,
                             std::chrono::milliseconds left = 500s) {
    Bytes key;
    key.put(build::ip(vip));
    key.put(net::Protocol::Tcp);
    key.put_port(80);
    key.put(build::ip("192.0.2.1"));
    Bytes value;
    value.put(build::ip(endpoint));
    value.put_port(8080);
    return {{key.view().begin(), key.view().end()},
            {value.view().begin(), value.view().end()},
            600s,
            left};
  }

  plan::ServicePlan plan_;
  ServiceElements elements_;
  AffinityJudge judge_{Family::V4, false};
};

TEST_F(Judging, EntriesHoldWhileTheirEndpointIsInTheList) {
  EXPECT_TRUE(judge_.judge(entry("10.96.0.1", "10.244.0.2")).keep);
  EXPECT_FALSE(judge_.judge(entry("10.96.0.1", "10.244.0.9")).keep);
}

TEST_F(Judging, TrafficOfTheNodeItselfMayStickToAnotherNodeUnderALocalPolicy) {
  EXPECT_TRUE(judge_.judge(entry("203.0.113.1", "10.244.0.1")).keep);
  EXPECT_TRUE(judge_.judge(entry("203.0.113.1", "10.244.0.2")).keep);
}

TEST_F(Judging, NobodySticksToAnotherNodeWhenThePolicyBecomesLocal) {
  AffinityJudge judge(Family::V4, false);
  for (const auto& front : elements_.fronts)
    judge.add(front.id, elements_.of(front), AffinityJudge::Lists::LocalOnly);
  EXPECT_TRUE(judge.judge(entry("203.0.113.1", "10.244.0.1")).keep);
  EXPECT_FALSE(judge.judge(entry("203.0.113.1", "10.244.0.2")).keep);
}

TEST_F(Judging, WhatItWasNotToldOfIsLeftAlone) {
  EXPECT_TRUE(judge_.judge(entry("10.96.0.2", "10.244.0.9")).keep);
  EXPECT_FALSE(AffinityJudge(Family::V4, true).judge(entry("10.96.0.2", "10.244.0.9")).keep);
  EXPECT_TRUE(judge_.judge({.key = {1, 2, 3}, .endpoint = {}}).keep);
}

}  // namespace
}  // namespace nftables
