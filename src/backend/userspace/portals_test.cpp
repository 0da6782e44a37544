#include "backend/userspace/portals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/iptables/chains.h"
#include "backend/iptables/tables.h"
#include "backend/userspace/test_plans.h"

namespace userspace {
namespace {

using build::ip;
using build::service;
using iptables::Table;
using iptables::Tables;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PortalOptions v4() { return {.family = net::Family::V4, .listen = {}, .host = ip("192.168.0.2")}; }

std::vector<iptables::FixedChain> chains(const PortalOptions& options, const plan::PortPlan& plan,
                                         const ProxyPorts& ports) {
  PortalLines lines;
  for (const auto& portal : portals_of(plan, ports))
    append_rules(options, plan.name, portal, lines);
  auto all = empty_chains();
  append_lines(lines, all);
  return all;
}

std::vector<std::string> rules(const std::vector<iptables::FixedChain>& all, PortalChain chain) {
  std::vector<std::string> lines;
  std::string_view text = all.at(static_cast<size_t>(chain)).rules;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

service web() {
  return service("default/web")
      .cluster_ip("10.96.0.10")
      .port("http", 80, 30080)
      .external_ip("192.168.99.11")
      .load_balancer("1.2.3.4");
}

// The example of the specification, word for word.
constexpr const char* kFilter =
    R"(-A INPUT -m comment --comment "Ensure that non-local NodePort traffic can flow" -j KUBE-NODEPORT-NON-LOCAL
-A KUBE-NODEPORT-NON-LOCAL -p tcp -m comment --comment "default/web:http" -m tcp --dport 40000 -m state --state NEW -j ACCEPT
)";
constexpr const char* kNat =
    R"(-A PREROUTING -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-CONTAINER
-A PREROUTING -m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-CONTAINER
-A OUTPUT -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-HOST
-A OUTPUT -m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-HOST
-A KUBE-NODEPORT-CONTAINER -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j REDIRECT --to-ports 40000
-A KUBE-NODEPORT-HOST -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j DNAT --to-destination 192.168.0.2:40000
-A KUBE-PORTALS-CONTAINER -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j REDIRECT --to-ports 40000
-A KUBE-PORTALS-CONTAINER -d 192.168.99.11/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -m physdev ! --physdev-is-in -j REDIRECT --to-ports 40000
-A KUBE-PORTALS-CONTAINER -d 192.168.99.11/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -m addrtype --dst-type LOCAL -j REDIRECT --to-ports 40000
-A KUBE-PORTALS-CONTAINER -d 1.2.3.4/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j REDIRECT --to-ports 40000
-A KUBE-PORTALS-HOST -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j DNAT --to-destination 192.168.0.2:40000
-A KUBE-PORTALS-HOST -d 192.168.99.11/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -m addrtype --dst-type LOCAL -j DNAT --to-destination 192.168.0.2:40000
-A KUBE-PORTALS-HOST -d 1.2.3.4/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j DNAT --to-destination 192.168.0.2:40000
)";

std::string rules_in(const Tables& tables, Table table) {
  std::string out;
  const std::string dump = tables.save();
  const size_t begin = dump.find("*" + std::string(iptables::name(table)) + "\n");
  std::string_view text = std::string_view(dump).substr(begin, dump.find("COMMIT", begin) - begin);
  for (; !text.empty(); text.remove_prefix(text.find('\n') + 1))
    if (text.starts_with("-A ")) out += text.substr(0, text.find('\n') + 1);
  return out;
}

TEST(Portals, TheRulesAreThoseOfTheSpecification) {
  Tables tables = Tables::empty();
  const auto wanted = chains(v4(), plan_of(web()), {40000, 0, 0});
  const auto done = tables.apply(iptables::chains_missing(wanted, jumps(), {}).str());
  ASSERT_TRUE(done) << done.error().text;
  EXPECT_EQ(rules_in(tables, Table::Filter), kFilter);
  EXPECT_EQ(rules_in(tables, Table::Nat), kNat);
}

TEST(Portals, NodePortsComeLastAmongTheRulesOfOthers) {
  Tables tables = Tables::empty();
  ASSERT_TRUE(tables.apply("*nat\n:CNI - [0:0]\n-A PREROUTING -j CNI\nCOMMIT\n"));
  ASSERT_TRUE(tables.apply(iptables::chains_missing(empty_chains(), jumps(), {}).str()));
  const auto& prerouting = tables[Table::Nat].at("PREROUTING").rules;
  ASSERT_EQ(prerouting.size(), 3U);
  EXPECT_THAT(prerouting[0], HasSubstr("-j KUBE-PORTALS-CONTAINER"));
  EXPECT_THAT(prerouting[1], HasSubstr("-j CNI"));
  EXPECT_THAT(prerouting[2], HasSubstr("-j KUBE-NODEPORT-CONTAINER"));
}

TEST(Portals, ASpecificListenAddressIsTheTargetOfAll) {
  auto options = v4();
  options.listen = ip("192.168.0.7");
  const auto all = chains(options, plan_of(web()), {40000, 0, 0});
  for (const auto chain : {PortalChain::ServicesContainer, PortalChain::ServicesHost,
                           PortalChain::NodePortsContainer, PortalChain::NodePortsHost})
    for (const auto& rule : rules(all, chain))
      EXPECT_THAT(rule, HasSubstr(" -j DNAT --to-destination 192.168.0.7:40000"));
}

TEST(Portals, AddressesOfIPv6StandInBrackets) {
  const auto dual = web().cluster_ip("fd00:96::a");
  const auto plan = plan::compile_service(build::entry(dual), context(net::Family::V6)).ports.at(0);
  const PortalOptions options{.family = net::Family::V6, .listen = ip("::"), .host = ip("fd00::2")};
  const auto all = chains(options, plan, {40000, 0, 0});
  EXPECT_THAT(rules(all, PortalChain::ServicesContainer),
              ElementsAre("-A KUBE-PORTALS-CONTAINER -d fd00:96::a/128 -p tcp -m comment --comment "
                          "\"default/web:http\" -m tcp --dport 80 -j REDIRECT --to-ports 40000"));
  EXPECT_THAT(
      rules(all, PortalChain::ServicesHost),
      ElementsAre(
          "-A KUBE-PORTALS-HOST -d fd00:96::a/128 -p tcp -m comment --comment "
          "\"default/web:http\" -m tcp --dport 80 -j DNAT --to-destination [fd00::2]:40000"));
}

TEST(Portals, EachWayLeadsToThePortOfItsFront) {
  const auto plan = plan_of(web().local_external().source_range("203.0.113.0/24"));
  const auto all = chains(v4(), plan, {40000, 40001, 40002});
  EXPECT_THAT(rules(all, PortalChain::ServicesContainer),
              ElementsAre(HasSubstr("--to-ports 40000"), HasSubstr("--to-ports 40001"),
                          HasSubstr("--to-ports 40001"), HasSubstr("--to-ports 40002")));
  EXPECT_THAT(rules(all, PortalChain::NodePortsNonLocal),
              ElementsAre(HasSubstr(" --dport 40001 ")));
}

// That is how a new process finds the port that the one before it had.
TEST(Portals, TheMatchOfAPortalIsTheBeginningOfItsFirstRule) {
  for (const auto& portal : portals_of(plan_of(web()), {40000, 0, 0})) {
    PortalLines lines;
    append_rules(v4(), "default/web:http", portal, lines);
    const auto first = std::ranges::find_if(lines, [](const auto& text) { return !text.empty(); });
    EXPECT_EQ(first->substr(0, first->find(" -j ")), match_of("default/web:http", portal));
  }
}

TEST(Portals, AFrontWithoutAPortHasNoRules) {
  const auto plan = plan_of(web().local_external());
  EXPECT_EQ(portals_of(plan, {40000, 0, 0}).size(), 1U);
  EXPECT_THAT(portals_of(plan, {}), IsEmpty());
}

TEST(Portals, AnAddressThatIsNamedTwiceHasItsRulesOnce) {
  const auto plan = plan_of(web().load_balancer("1.2.3.4"));
  EXPECT_EQ(portals_of(plan).size(), 4U);
}

TEST(Portals, WithoutANodePortNothingIsLetIn) {
  const auto internal = service("default/web").cluster_ip("10.96.0.10").port("http", 80);
  EXPECT_THAT(rules(chains(v4(), plan_of(internal), {40000, 0, 0}), PortalChain::NodePortsNonLocal),
              IsEmpty());
}

TEST(Portals, CleaningUpTakesAwayAllChainsAndJumps) {
  Tables tables = Tables::empty();
  const auto wanted = chains(v4(), plan_of(web()), {40000, 0, 0});
  ASSERT_TRUE(tables.apply(iptables::chains_missing(wanted, jumps(), {}).str()));
  const std::string dump = tables.save();
  for (const Table table : iptables::kTables) {
    const size_t begin = dump.find("*" + std::string(iptables::name(table)) + "\n");
    const auto removal = iptables::diff_removal(
        table, dump.substr(begin, dump.find("COMMIT", begin) - begin), owned());
    EXPECT_THAT(removal.in_the_way, IsEmpty());
    ASSERT_TRUE(tables.apply(removal.transaction.str()));
  }
  EXPECT_EQ(tables, Tables::empty());
}

}  // namespace
}  // namespace userspace
