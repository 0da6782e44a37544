#include "backend/ipvs/rules.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "backend/iptables/cleanup.h"
#include "backend/iptables/dump.h"
#include "backend/iptables/tables.h"
#include "support/builders.h"

namespace ipvs {
namespace {

using build::cidr;
using build::ip;
using iptables::FixedChain;
using iptables::Table;
using iptables::Tables;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Filled all_filled() { return Filled().set(); }
Filled with(SetId set) { return Filled().set(static_cast<size_t>(set)); }

std::string rules(const std::vector<FixedChain>& all, Table table, std::string_view name) {
  for (const auto& chain : all)
    if (chain.table == table && chain.name == name) return chain.rules;
  return "no such chain";
}
std::string services(const Options& options, const Filled& filled) {
  return rules(chains(options, filled, {}), Table::Nat, "KUBE-SERVICES");
}

iptables::Observed observe(const Tables& tables) {
  iptables::Observed observed;
  const std::string dump = tables.save();
  for (const Table table : iptables::kTables) {
    iptables::DumpReader reader;
    const size_t begin = dump.find("*" + std::string(iptables::name(table)) + "\n");
    reader.feed(std::string_view(dump).substr(begin, dump.find("COMMIT", begin) - begin));
    observed[table] = reader.finish();
  }
  return observed;
}

Tables written(const std::vector<FixedChain>& wanted, Tables tables = Tables::empty()) {
  const auto transaction = rules_missing(wanted, observe(tables));
  const auto done = tables.apply(transaction.str());
  EXPECT_TRUE(done) << done.error().text << "\n" << transaction.str();
  return tables;
}

TEST(IpvsRules, RulesAboutEmptySetsAreLeftOut) {
  EXPECT_EQ(services({}, {}),
            "-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN\n"
            "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT\n");
  const auto none = chains({}, {}, {});
  EXPECT_THAT(rules(none, Table::Nat, "KUBE-NODE-PORT"), IsEmpty());
  EXPECT_THAT(rules(none, Table::Filter, "KUBE-PROXY-FIREWALL"), IsEmpty());
  EXPECT_EQ(rules(none, Table::Filter, "KUBE-SOURCE-RANGES-FIREWALL"),
            "-A KUBE-SOURCE-RANGES-FIREWALL -j DROP\n");
}

TEST(IpvsRules, ASetThatIsAlwaysLookedUpNeedsNoMembers) {
  EXPECT_THAT(rules(chains({}, {}, {}), Table::Filter, "KUBE-IPVS-FILTER"),
              HasSubstr("--match-set KUBE-EXTERNAL-IP-LOCAL dst,dst -j RETURN\n"));
  EXPECT_THAT(rules(chains({}, {}, {}), Table::Filter, "KUBE-NODE-PORT"),
              HasSubstr("--match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT\n"));
}

TEST(IpvsRules, WithAllSetsFilledTheOrderIsThatOfKubeProxy) {
  Options options;
  options.local_traffic.by = plan::LocalTraffic::By::Source;
  options.local_traffic.cidr = cidr("10.0.0.0/8");
  const std::string external =
      "-A KUBE-SERVICES -m comment --comment \"Kubernetes service external ip + port for "
      "masquerade and filter purpose\" -m set --match-set KUBE-EXTERNAL-IP dst,dst";
  const std::string local =
      "-A KUBE-SERVICES -m comment --comment \"Kubernetes service external ip + port with "
      "externalTrafficPolicy=local\" -m set --match-set KUBE-EXTERNAL-IP-LOCAL dst,dst";
  const std::string outside =
      " -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT\n";
  EXPECT_EQ(
      services(options, all_filled()),
      "-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN\n"
      "-A KUBE-SERVICES -m comment --comment \"Kubernetes service lb portal\" -m set --match-set "
      "KUBE-LOAD-BALANCER dst,dst -j KUBE-LOAD-BALANCER\n"
      "-A KUBE-SERVICES ! -s 10.0.0.0/8 -m comment --comment \"Kubernetes service cluster ip + "
      "port for masquerade purpose\" -m set --match-set KUBE-CLUSTER-IP dst,dst -j "
      "KUBE-MARK-MASQ\n" +
          external + " -j KUBE-MARK-MASQ\n" + external + outside + external +
          " -m addrtype --dst-type LOCAL -j ACCEPT\n" + local + outside + local +
          " -m addrtype --dst-type LOCAL -j ACCEPT\n"
          "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT\n"
          "-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT\n"
          "-A KUBE-SERVICES -m set --match-set KUBE-LOAD-BALANCER dst,dst -j ACCEPT\n");
}

TEST(IpvsRules, NodePortsOfPolicyLocalReturnBeforeTheyAreMarked) {
  const std::string head = "-A KUBE-NODE-PORT -p sctp -m comment --comment \"Kubernetes nodeport ";
  EXPECT_THAT(rules(chains({}, all_filled(), {}), Table::Nat, "KUBE-NODE-PORT"),
              HasSubstr(head +
                        "SCTP port with externalTrafficPolicy=local with type 'hash ip:port'\" -m "
                        "set --match-set KUBE-NODE-PORT-LOCAL-SCTP-HASH dst,dst -j RETURN\n" +
                        head +
                        "SCTP port for masquerade purpose with type 'hash ip:port'\" -m set "
                        "--match-set KUBE-NODE-PORT-SCTP-HASH dst,dst -j KUBE-MARK-MASQ\n"));
}

TEST(IpvsRules, WhoIsMasqueradedDependsOnWhatIsKnownOfLocalTraffic) {
  const auto rule = [](const Options& options) {
    const std::string all = services(options, with(SetId::ClusterIp));
    const size_t begin = all.find('\n') + 1;
    return all.substr(begin, all.find('\n', begin) - begin);
  };
  Options options;
  EXPECT_THAT(rule(options), HasSubstr("KUBE-CLUSTER-IP src,dst -j KUBE-MARK-MASQ"));
  options.local_traffic.by = plan::LocalTraffic::By::Interface;
  options.local_traffic.interface = "cni0";
  EXPECT_THAT(rule(options), HasSubstr("-A KUBE-SERVICES ! -i cni0 -m comment"));
  EXPECT_THAT(rule(options), HasSubstr("KUBE-CLUSTER-IP dst,dst"));
  options.local_traffic.by = plan::LocalTraffic::By::InterfacePrefix;
  EXPECT_THAT(rule(options), HasSubstr("-A KUBE-SERVICES ! -i cni0+ -m comment"));
  options.masquerade_all = true;
  EXPECT_THAT(rule(options), HasSubstr("-A KUBE-SERVICES -m comment"));
  EXPECT_THAT(rule(options), HasSubstr("KUBE-CLUSTER-IP dst,dst"));
}

TEST(IpvsRules, MasqueradingForHairpinsIsNeverFullyRandom) {
  const std::string hairpin = "KUBE-LOOP-BACK dst,dst,src -j MASQUERADE\n";
  const std::string other = "\"kubernetes service traffic requiring SNAT\" -j MASQUERADE";
  Options options;
  const auto postrouting = [&] {
    return rules(chains(options, all_filled(), {}), Table::Nat, "KUBE-POSTROUTING");
  };
  EXPECT_THAT(postrouting(), HasSubstr(hairpin));
  EXPECT_THAT(postrouting(), HasSubstr(other + " --random-fully\n"));
  options.random_fully = false;
  EXPECT_THAT(postrouting(), HasSubstr(hairpin));
  EXPECT_THAT(postrouting(), HasSubstr(other + "\n"));
}

TEST(IpvsRules, TheMarkIsWrittenAsItIsPrinted) {
  Options options;
  options.masquerade_mark = 1U << 7;
  EXPECT_EQ(rules(chains(options, {}, {}), Table::Nat, "KUBE-MARK-MASQ"),
            "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x80/0x80\n");
  EXPECT_THAT(rules(chains(options, {}, {}), Table::Filter, "KUBE-FORWARD"),
              HasSubstr("-m mark --mark 0x80/0x80 -j ACCEPT\n"));
}

TEST(IpvsRules, Ipv6HasItsOwnLoopbackSetsAndRefusal) {
  Options options;
  options.family = net::Family::V6;
  EXPECT_THAT(services(options, all_filled()), HasSubstr("-s ::1/128 -j RETURN\n"));
  EXPECT_THAT(services(options, all_filled()), HasSubstr("--match-set KUBE-6-CLUSTER-IP dst,dst"));
  EXPECT_THAT(rules(chains(options, {}, {}), Table::Filter, "KUBE-IPVS-FILTER"),
              HasSubstr("KUBE-6-IPVS-IPS dst -j REJECT --reject-with icmp6-port-unreachable\n"));
}

TEST(IpvsRules, GuardsDropWhatThisNodeSends) {
  const std::vector<Guard> guards{{ip("192.0.2.1"), net::Protocol::Tcp, 80},
                                  {ip("192.0.2.2"), net::Protocol::Sctp, 99},
                                  {ip("2001:db8::1"), net::Protocol::Udp, 53}};
  EXPECT_EQ(rules(chains({}, {}, guards), Table::Filter, "KUBE-IPVS-OUT-FILTER"),
            "-A KUBE-IPVS-OUT-FILTER -s 192.0.2.1/32 -m ipvs --vproto 6 --vaddr 192.0.2.1 --vport "
            "80 -j DROP\n"
            "-A KUBE-IPVS-OUT-FILTER -s 192.0.2.2/32 -m ipvs --vproto 132 --vaddr 192.0.2.2 "
            "--vport 99 -j DROP\n"
            "-A KUBE-IPVS-OUT-FILTER -s 2001:db8::1/128 -m ipvs --vproto 17 --vaddr 2001:db8::1 "
            "--vport 53 -j DROP\n");
}

TEST(IpvsRules, OnAFreshHostAccessIsFilteredFirst) {
  const Tables tables = written(chains({}, {}, {}));
  const auto& input = tables[Table::Filter].at("INPUT").rules;
  ASSERT_EQ(input.size(), 3U);
  EXPECT_THAT(input.at(0), HasSubstr("-j KUBE-IPVS-FILTER"));
  EXPECT_THAT(input.at(1), HasSubstr("-j KUBE-PROXY-FIREWALL"));
  EXPECT_THAT(input.at(2), HasSubstr("-j KUBE-NODE-PORT"));
  const auto& forward = tables[Table::Filter].at("FORWARD").rules;
  ASSERT_EQ(forward.size(), 2U);
  EXPECT_THAT(forward.at(0), HasSubstr("-j KUBE-PROXY-FIREWALL"));
  EXPECT_THAT(forward.at(1), HasSubstr("-j KUBE-FORWARD"));
}

TEST(IpvsRules, WhatIsThereIsNotWrittenAgain) {
  const auto wanted = chains({}, all_filled(), {{ip("192.0.2.1"), net::Protocol::Tcp, 80}});
  EXPECT_TRUE(rules_missing(wanted, observe(written(wanted))).empty());
}

TEST(IpvsRules, ADamagedChainAndALostJumpAreMended) {
  const auto wanted = chains({}, all_filled(), {});
  const Tables good = written(wanted);
  Tables bad = good;
  ASSERT_TRUE(
      bad.apply("*nat\n:KUBE-SERVICES - [0:0]\n-D POSTROUTING -m comment --comment "
                "\"kubernetes postrouting rules\" -j KUBE-POSTROUTING\nCOMMIT\n"));
  ASSERT_NE(bad, good);
  EXPECT_EQ(written(wanted, bad), good);
}

TEST(IpvsRules, RulesOfOthersAreLeftAlone) {
  Tables tables = Tables::empty();
  ASSERT_TRUE(tables.apply("*filter\n:DOCKER-USER - [0:0]\n-A FORWARD -j DOCKER-USER\nCOMMIT\n"));
  tables = written(chains({}, {}, {}), tables);
  EXPECT_EQ(tables[Table::Filter].at("FORWARD").rules.back(), "-A FORWARD -j DOCKER-USER");
}

TEST(IpvsRules, AChangeWritesOnlyTheChainsThatDiffer) {
  const auto before = chains({}, {}, {});
  const auto after = chains({}, with(SetId::LoopBack), {});
  EXPECT_TRUE(iptables::chains_changed(before, before).empty());
  const auto change = iptables::chains_changed(before, after);
  EXPECT_EQ(change.chains, 1U);
  EXPECT_THAT(change.str(), HasSubstr(":KUBE-POSTROUTING - [0:0]\n"));
  EXPECT_THAT(change.str(), Not(HasSubstr("*filter")));
}

RC_GTEST_PROP(IpvsRules, AChangeLeadsFromAnyFillToAnyOther, (uint32_t from, uint32_t to)) {
  const auto before = chains({}, Filled(from), {});
  const auto after = chains({}, Filled(to), {{ip("192.0.2.1"), net::Protocol::Tcp, 80}});
  Tables tables = written(before);
  RC_ASSERT(tables.apply(iptables::chains_changed(before, after).str()).has_value());
  RC_ASSERT(tables == written(after));
}

std::string recording(const std::string& scenario, const std::string& file) {
  std::stringstream text;
  text << std::ifstream("tests/recordings/" + scenario + "/" + file).rdbuf();
  return text.str();
}

// What is left after the removal of all that is owned, which nothing must be in the way of.
Tables cleaned(Tables tables, const iptables::Owned& owned) {
  const std::string dump = tables.save();
  for (const Table table : iptables::kTables) {
    const size_t begin = dump.find("*" + std::string(iptables::name(table)) + "\n");
    const auto removal = iptables::diff_removal(
        table, dump.substr(begin, dump.find("COMMIT", begin) - begin), owned);
    EXPECT_THAT(removal.in_the_way, IsEmpty());
    const auto done = tables.apply(removal.transaction.str());
    EXPECT_TRUE(done) << done.error().text;
  }
  return tables;
}

TEST(IpvsRules, CleaningUpTakesAwayAllChainsAndJumps) {
  const auto wanted = chains({}, all_filled(), {{ip("192.0.2.1"), net::Protocol::Tcp, 80}});
  EXPECT_EQ(cleaned(written(wanted), owned()), Tables::empty());
}

TEST(IpvsRules, OfWhatTheRealOneHasNothingStays) {
  for (const auto* scenario : {"external-traffic-local", "load-balancer-source-ranges"}) {
    for (const auto* file : {"iptables-ipvs.txt", "ip6tables-ipvs.txt"}) {
      const Tables tables = Tables::parse_save(recording(scenario, file));
      ASSERT_NE(tables, Tables::empty());
      EXPECT_EQ(cleaned(tables, iptables::both(iptables::owned(), owned())).save(),
                Tables::empty().save())
          << scenario << ' ' << file;
    }
  }
}

// Neither mode removes what the other has left, so one node may hold both. KUBE-FIREWALL is the kubelet's, too.
TEST(IpvsRules, TheChainsOfModeIptablesGoTogetherWithThem) {
  Tables tables = Tables::parse_save(recording("dual-stack", "iptables.txt"));
  ASSERT_TRUE(tables.apply(recording("dual-stack", "iptables-ipvs.txt")));
  const Tables left = cleaned(tables, iptables::both(iptables::owned(), owned()));
  EXPECT_THAT(left.save(), HasSubstr("KUBE-FIREWALL"));
  EXPECT_EQ(left, cleaned(Tables::parse_save(recording("dual-stack", "iptables.txt")),
                          iptables::owned()));
}

}  // namespace
}  // namespace ipvs
