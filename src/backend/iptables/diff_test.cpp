// The laws of this backend, on histories drawn at random.
#include "backend/iptables/diff.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "backend/iptables/tables.h"
#include "support/history.h"

namespace iptables {
namespace {

using build::service;
using build::slice;

// One node that folds changes and keeps tables in line, as the daemon does.
class Node {
 public:
  explicit Node(net::Family family = net::Family::V4) : store_("node1") {
    context_.family = family;
    context_.node_name = "node1";
    context_.zone = "zone-a";
    context_.node_ip = build::ip(family == net::Family::V4 ? "172.31.0.11" : "fd00:31::11");
    options_.family = family;
    options_.localhost_node_ports = family == net::Family::V4;
    options_.local_traffic.by = plan::LocalTraffic::By::Source;
    options_.local_traffic.cidr =
        build::cidr(family == net::Family::V4 ? "10.244.0.0/16" : "fd00:244::/64");
  }

  void fold(const model::Change& change) { dirty_.merge(store_.fold(change)); }

  Transaction full() {
    dirty_ = {};
    return committed(diff_full(input(), all(), observe_all(), ledger));
  }
  size_t drift() const { return count_drift(options_, ledger, observe_all()); }
  Transaction partial() {
    const auto plans = plan::compile_some(store_.snapshot()->services,
                                          std::exchange(dirty_, {}).services, context_);
    return committed(diff_partial(input(), plans, ledger));
  }

  // What a machine holds on which nothing of ours has ever been.
  Tables from_scratch() {
    Ledger fresh;
    Tables empty = Tables::empty();
    EXPECT_TRUE(empty.apply(diff_full(input(), all(), {}, fresh).str()));
    return empty;
  }

  Tables tables = Tables::empty();
  Ledger ledger;

 private:
  static ObservedTable observe(const std::string& dump, Table table) {
    DumpReader reader;
    const size_t begin = dump.find("*" + std::string(name(table)) + "\n");
    // In odd pieces, as pipes deliver.
    const std::string part = dump.substr(begin, dump.find("COMMIT", begin) - begin);
    for (size_t at = 0; at < part.size(); at += 37)
      reader.feed(std::string_view(part).substr(at, 37));
    return reader.finish();
  }
  Observed observe_all() const {
    Observed observed;
    const std::string dump = tables.save();
    for (const Table table : kTables)
      observed[table] = observe(dump, table);
    return observed;
  }
  SyncInput input() const { return {options_, node_ports_}; }
  std::vector<plan::ServicePlan> all() const {
    return plan::compile_all(store_.snapshot()->services, context_);
  }
  Transaction committed(Transaction transaction) {
    const auto applied = tables.apply(transaction.str());
    EXPECT_TRUE(applied) << applied.error().text << "\n" << transaction.str();
    return transaction;
  }

  model::Store store_;
  model::DirtySet dirty_;
  plan::Context context_;
  RuleOptions options_;
  NodePortAddresses node_ports_;
};

RC_GTEST_PROP(IptablesLaws, PartialSyncsEndWhereAFullSyncEnds, (uint32_t seed)) {
  for (const auto family : net::kFamilies) {
    Node node(family);
    node.full();
    history::Generator generator(seed);
    for (int i = 0; i < 250; ++i) {
      node.fold(generator.next());
      if (i % 3 != 0) node.partial();  // now and then several changes at once
    }
    node.partial();
    RC_ASSERT(node.tables.save() == node.from_scratch().save());
  }
}

RC_GTEST_PROP(IptablesLaws, EqualStatesGiveAnEmptyDiff, (uint32_t seed)) {
  Node node;
  for (const auto& change : history::Generator(seed).changes(60))
    node.fold(change);
  node.full();
  RC_ASSERT(node.full().empty());
  RC_ASSERT(node.partial().empty());
}

RC_GTEST_PROP(IptablesLaws, ADiffLeadsFromAnyStateToAnyOther, (uint32_t seed)) {
  Node node;
  history::Generator generator(seed);
  for (const auto& change : generator.changes(60))
    node.fold(change);
  node.full();
  for (const auto& change : generator.changes(60))
    node.fold(change);
  node.full();
  RC_ASSERT(node.tables.save() == node.from_scratch().save());
}

// The last word on each object counts, not the order in which objects came.
RC_GTEST_PROP(IptablesLaws, TheOrderOfChangesToDifferentObjectsDoesNotMatter, (uint32_t seed)) {
  history::Generator generator(seed);
  std::vector<model::Change> changes;
  for (int i = 0; i < 6; ++i) {
    changes.push_back(service("default/s" + std::to_string(i))
                          .cluster_ip("10.96.0." + std::to_string(1 + i % 3))
                          .port("http", 80)
                          .ptr());
    changes.push_back(slice("default/s" + std::to_string(i), "a")
                          .port("http", 8080)
                          .ready("10.244.0." + std::to_string(i))
                          .ptr());
    changes.push_back(slice("default/s" + std::to_string(i), "b")
                          .port("http", 8080)
                          .ready("10.244.0.9", "node1")
                          .ptr());
  }
  Node ordered;
  ordered.full();
  for (const auto& change : changes)
    ordered.fold(change);
  ordered.partial();
  std::mt19937 random(seed);
  std::shuffle(changes.begin(), changes.end(), random);
  Node shuffled;
  shuffled.full();
  for (const auto& change : changes) {
    shuffled.fold(change);
    shuffled.partial();
  }
  RC_ASSERT(shuffled.tables.save() == ordered.tables.save());
}

TEST(IptablesDiff, OneEndpointMoreTouchesOnlyItsServiceChains) {
  Node node;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "default/s" + std::to_string(i);
    node.fold(service(name).cluster_ip("10.96.0." + std::to_string(i + 1)).port("http", 80).ptr());
    node.fold(slice(name, "a").port("http", 80).ready("10.244.0." + std::to_string(i + 1)).ptr());
  }
  node.full();
  node.fold(
      slice("default/s3", "a").port("http", 80).ready("10.244.0.4").ready("10.244.0.99").ptr());
  const Transaction change = node.partial();
  EXPECT_EQ(change.chains, 2U) << change.str();  // KUBE-SVC rewritten, one KUBE-SEP new
  EXPECT_EQ(change.str().find("KUBE-SERVICES"), std::string::npos);
}

TEST(IptablesDiff, AServiceThatLosesItsLastEndpointIsRefusedInTheSameTransaction) {
  Node node;
  node.fold(service("default/web").cluster_ip("10.96.0.1").port("http", 80).ptr());
  node.fold(slice("default/web", "a").port("http", 80).ready("10.244.0.1").ptr());
  node.full();
  node.fold(model::SliceDeleted{{build::key("default/web"), "a"}});
  const std::string text = node.partial().str();
  EXPECT_NE(text.find("-X KUBE-SVC-"), std::string::npos);
  EXPECT_NE(text.find("has no endpoints\" -m tcp --dport 80 -j REJECT"), std::string::npos);
}

TEST(IptablesDiff, ForeignRulesAndChainsAreLeftAlone) {
  Node node;
  ASSERT_TRUE(node.tables.apply(
      "*filter\n:DOCKER-USER - [0:0]\n-A DOCKER-USER -j RETURN\n-I FORWARD -j DOCKER-USER\nCOMMIT\n"
      "*nat\n:CNI-HOSTPORT - [0:0]\n-A PREROUTING -j CNI-HOSTPORT\n:KUBE-KUBELET-CANARY - "
      "[0:0]\nCOMMIT\n"));
  node.fold(service("default/web").cluster_ip("10.96.0.1").port("http", 80).ptr());
  node.full();
  const auto& filter = node.tables[Table::Filter];
  EXPECT_EQ(filter.at("DOCKER-USER").rules.size(), 1U);
  EXPECT_EQ(filter.at("FORWARD").rules.back(), "-A FORWARD -j DOCKER-USER");
  EXPECT_TRUE(node.tables[Table::Nat].contains("CNI-HOSTPORT"));
  EXPECT_TRUE(node.tables[Table::Nat].contains("KUBE-KUBELET-CANARY"));
}

TEST(IptablesDiff, AJumpThatIsThereIsNotMoved) {
  Node node;
  node.full();
  ASSERT_TRUE(node.tables.apply("*filter\n-I INPUT -j ACCEPT\nCOMMIT\n"));
  node.full();
  EXPECT_EQ(node.tables[Table::Filter].at("INPUT").rules.front(), "-A INPUT -j ACCEPT");
}

TEST(IptablesDiff, StaleChainsOfAnEarlierRunAreDeleted) {
  Node node;
  ASSERT_TRUE(node.tables.apply(
      "*nat\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]\n"
      "-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-BBBBBBBBBBBBBBBB\nCOMMIT\n"));
  node.full();
  EXPECT_EQ(node.tables.save(), node.from_scratch().save());
}

TEST(IptablesDiff, ADamagedChainIsMended) {
  Node node;
  node.fold(service("default/web").cluster_ip("10.96.0.1").port("http", 80).ptr());
  node.fold(
      slice("default/web", "a").port("http", 80).ready("10.244.0.1").ready("10.244.0.2").ptr());
  node.full();
  const Tables good = node.tables;
  ASSERT_TRUE(node.tables.apply(
      "*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n*filter\n:KUBE-FORWARD - [0:0]\nCOMMIT\n"));
  node.full();
  EXPECT_EQ(node.tables.save(), good.save());
}

TEST(IptablesDiff, PastAThousandEndpointsNewRulesCarryNoComments) {
  Node node;
  node.full();
  for (int i = 0; i < 11; ++i) {
    const std::string name = "default/s" + std::to_string(i);
    node.fold(service(name).cluster_ip("10.96.1." + std::to_string(i + 1)).port("http", 80).ptr());
    auto endpoints = slice(name, "a").port("http", 80);
    for (int j = 0; j < 100; ++j)
      endpoints.ready("10.244." + std::to_string(i) + "." + std::to_string(j + 1));
    node.fold(endpoints.ptr());
    node.partial();
  }
  EXPECT_TRUE(node.ledger.large());
  const auto with_comment = [](const std::string& rule) {
    return rule.find(" -> ") != std::string::npos;
  };
  size_t commented = 0;
  for (const auto& [_, chain] : node.tables[Table::Nat])
    commented += static_cast<size_t>(std::ranges::count_if(chain.rules, with_comment));
  EXPECT_EQ(commented, 1000U);  // those of the first ten: crossing the line rewrites nothing
  node.full();
  EXPECT_EQ(node.tables.save(), node.from_scratch().save());
}

TEST(IptablesDiff, TwoServicesWithOneAddressStandInTheOrderOfTheirNames) {
  Node node;
  node.full();
  for (const auto* name : {"default/zeta", "default/alpha"}) {
    node.fold(service(name).cluster_ip("10.96.0.1").port("http", 80).ptr());
    node.fold(slice(name, "a").port("http", 80).ready("10.244.0.1").ptr());
    node.partial();
  }
  const auto& rules = node.tables[Table::Nat].at("KUBE-SERVICES").rules;
  EXPECT_NE(rules.at(0).find("default/alpha"), std::string::npos);
  EXPECT_NE(rules.at(1).find("default/zeta"), std::string::npos);
}

TEST(IptablesDiff, DriftIsWhateverSomebodyElseHasChanged) {
  Node node;
  node.fold(service("default/web").cluster_ip("10.96.0.1").port("http", 80, 30080).ptr());
  node.fold(slice("default/web", "a").port("http", 80).ready("10.244.0.1").ptr());
  node.full();
  EXPECT_EQ(node.drift(), 0U);
  // One chain emptied, one jump removed, something foreign added.
  ASSERT_TRUE(node.tables.apply("*nat\n:KUBE-POSTROUTING - [0:0]\n:FOREIGN - [0:0]\nCOMMIT\n"));
  EXPECT_EQ(node.drift(), 1U);
  const std::string jump = node.tables[Table::Nat].at("PREROUTING").rules.at(0);
  ASSERT_TRUE(node.tables.apply("*nat\n-D" + jump.substr(2) + "\nCOMMIT\n"));
  EXPECT_EQ(node.drift(), 2U);
  node.full();
  EXPECT_EQ(node.drift(), 0U);
}

TEST(IptablesDiff, WhatTheKubeletAddsToItsChainIsNoDrift) {
  Node node;
  node.full();
  ASSERT_TRUE(node.tables.apply("*filter\n-A KUBE-FIREWALL -j DROP\nCOMMIT\n"));
  EXPECT_EQ(node.drift(), 0U);
}

TEST(IptablesDiff, RulesAreCountedByTable) {
  Node node;
  node.fold(service("default/web").cluster_ip("10.96.0.1").port("http", 80, 30080).ptr());
  node.fold(slice("default/web", "a").port("http", 80).ready("10.244.0.1").ptr());
  const auto written = node.full().rules;
  EXPECT_EQ(node.ledger.rules, written);
  node.fold(model::ServiceDeleted{build::key("default/web")});
  node.partial();
  Node empty;
  empty.full();
  EXPECT_EQ(node.ledger.rules, empty.ledger.rules);
}

}  // namespace
}  // namespace iptables
