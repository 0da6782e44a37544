#include "backend/nftables/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/nftables/text.h"
#include "support/builders.h"

namespace nftables {
namespace {

using net::Family;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

Options options() {
  Options options;
  options.local_traffic = {plan::LocalTraffic::By::Source, build::cidr("10.244.0.0/16"), ""};
  return options;
}

Target target(Class front) { return {.kind = Target::Kind::Class, .front = front}; }

std::vector<std::string> rules(const Chain& chain, Family family = Family::V4) {
  std::vector<std::string> out;
  for (const auto& rule : chain.rules)
    out.push_back(rule_text(rule, family));
  return out;
}

std::vector<std::string> rules(std::string_view chain, const Options& options) {
  for (const auto& one : static_chains(options)) {
    if (one.name == chain) return rules(one, options.family);
  }
  return {"no such chain"};
}

TEST(NftablesLayout, HasTheEightBaseChainsOfTheOriginal) {
  std::vector<std::string> hooks;
  for (const auto& chain : static_chains(options())) {
    if (chain.hook) {
      hooks.push_back(chain.name + " " + std::string(chain.hook->type) + " " +
                      std::string(chain.hook->point) + " " + std::to_string(chain.hook->priority));
    }
  }
  EXPECT_THAT(
      hooks, ElementsAre("filter-prerouting-pre-dnat filter prerouting -110",
                         "filter-output-pre-dnat filter output -110", "filter-input filter input 0",
                         "filter-forward filter forward 0", "filter-output filter output 0",
                         "nat-prerouting nat prerouting -100", "nat-output nat output -100",
                         "nat-postrouting nat postrouting 100"));
}

TEST(NftablesLayout, SetsStandInTheOrderOfTheirNumbers) {
  for (const SetId set : kAllSets)
    EXPECT_EQ(layout_of(set).id, set);
}

TEST(NftablesLayout, NodePortsEverywhereNeedNoSetOfAddresses) {
  auto everywhere = options();
  everywhere.node_ports_everywhere = true;
  EXPECT_THAT(sets_of(options()), Contains(SetId::NodePortIps));
  EXPECT_THAT(sets_of(everywhere), Not(Contains(SetId::NodePortIps)));
  EXPECT_THAT(rules("services", everywhere),
              Contains("fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap "
                       "@service-nodeports"));
  everywhere.family = Family::V6;
  EXPECT_THAT(rules("nodeport-endpoints-check", everywhere),
              ElementsAre("ip6 daddr != ::1 meta l4proto . th dport vmap @no-endpoint-nodeports"));
}

TEST(NftablesLayout, ClusterIpTrafficIsMasqueradedAsConfigured) {
  auto one = options();
  EXPECT_EQ(rules("services", one).front(),
            "ip daddr @cluster-ips ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00004000 "
            "comment \"masquerade clusterIP traffic from outside cluster\"");
  one.local_traffic = {plan::LocalTraffic::By::InterfacePrefix, {}, "veth"};
  EXPECT_THAT(rules("services", one).front(), testing::HasSubstr("iifname != \"veth*\""));
  one.local_traffic = {};
  EXPECT_EQ(rules("services", one).front(), "ip daddr . meta l4proto . th dport vmap @service-ips");
  one.masquerade_all = true;
  one.masquerade_mark = 1U << 31;
  EXPECT_EQ(rules("services", one).front(),
            "ip daddr @cluster-ips meta mark set meta mark | 0x80000000 comment \"masquerade all "
            "clusterIP traffic\"");
}

TEST(NftablesLayout, LocalhostIsProtectedOnlyIfItIsServed) {
  auto one = options();
  EXPECT_THAT(rules("filter-prerouting-pre-dnat", one),
              ElementsAre("ct state new jump firewall-check"));
  one.localhost_node_ports = true;
  EXPECT_THAT(rules("filter-prerouting-pre-dnat", one),
              ElementsAre("iifname != \"lo\" ip daddr 127.0.0.0/8 drop comment \"nobody outside "
                          "reaches localhost\"",
                          "ct state new jump firewall-check"));
}

TEST(NftablesLayout, AChainLeadsToOneOfManyEndpointsAndElseToTheFirst) {
  EXPECT_THAT(
      rules(chain_of(target({.endpoints = 3}), options())),
      ElementsAre(
          "dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 3 map @endpoints",
          "dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 1 map @endpoints"));
  EXPECT_EQ(chain_of(target({.endpoints = 1}), options()).rules.size(), 1U);
}

TEST(NftablesLayout, LocalPoliciesLetTrafficOfTheNodeItselfGoAnywhere) {
  const auto local = target({.kind = Class::Kind::ExternalLocal, .endpoints = 2, .local = 1});
  EXPECT_THAT(rules(chain_of(local, options())),
              ElementsAre("ip saddr 10.244.0.0/16 goto endpoints/2 comment \"short-circuit pod "
                          "traffic\"",
                          "fib saddr type local meta mark set meta mark | 0x00004000 comment "
                          "\"masquerade local traffic\"",
                          "fib saddr type local goto endpoints/2 comment \"short-circuit local "
                          "traffic\"",
                          "dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 1 "
                          "offset 1048576 map @endpoints"));
  EXPECT_THAT(needed_by(local), ElementsAre(target({.endpoints = 2})));
  EXPECT_EQ(chain_of(target({.kind = Class::Kind::ExternalLocal, .endpoints = 2}), options())
                .rules.size(),
            3U);
}

TEST(NftablesLayout, WhoSticksIsLookedUpFirst) {
  const auto sticky =
      target({.kind = Class::Kind::External, .node_port = true, .sticky = true, .endpoints = 2});
  EXPECT_THAT(rules(chain_of(sticky, options())),
              ElementsAre("meta mark set meta mark | 0x00004000 comment \"masquerade\"",
                          "dnat ip to ip daddr . meta l4proto . th dport . ip saddr map @affinity",
                          "dnat ip to meta l4proto . th dport . numgen random mod 2 map "
                          "@nodeport-endpoints",
                          "dnat ip to meta l4proto . th dport . numgen random mod 1 map "
                          "@nodeport-endpoints"));
}

TEST(NftablesLayout, NamesOfChainsAreRead) {
  std::vector<Target> targets{{.kind = Target::Kind::Reject},
                              {.kind = Target::Kind::CheckSources},
                              {.kind = Target::Kind::Remember, .timeout_s = 86400}};
  for (const auto kind :
       {Class::Kind::Internal, Class::Kind::External, Class::Kind::ExternalLocal}) {
    for (const bool node_port : {false, true}) {
      for (const bool sticky : {false, true}) {
        const uint32_t local = kind == Class::Kind::ExternalLocal ? 7 : 0;
        targets.push_back(target({kind, node_port, sticky, 12, local}));
      }
    }
  }
  for (const auto& one : targets)
    EXPECT_EQ(parse_target(chain_name(one)), one) << chain_name(one);
  for (const auto* name : {"", "services", "endpoints/", "endpoints/x", "endpoints/1/2", "local/1",
                           "remember-", "endpoints/99999999999", "service-ABC-ns/svc/tcp/http"})
    EXPECT_EQ(parse_target(name), std::nullopt) << name;
}

TEST(NftablesLayout, ThereIsRoomToGrow) {
  EXPECT_EQ(capacity_for(0), 4096U);
  EXPECT_EQ(capacity_for(100'000), 131'072U);
  EXPECT_EQ(capacity_for(110'000), 262'144U);
  EXPECT_EQ(declared_size(SetId::ServiceIps, {4096, 4096}), 0U) << "the original declares none";
}

}  // namespace
}  // namespace nftables
