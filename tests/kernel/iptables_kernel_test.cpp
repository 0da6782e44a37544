// The laws of the iptables backend, on the kernel: what a transaction does to a Tables value it does
// to the real tables, and what we render is, letter for letter, what iptables-save prints.
//
// Run by with_variant.py, in a network namespace of its own.
#include <gtest/gtest.h>

#include "backend/iptables/cleanup.h"
#include "backend/iptables/commit.h"
#include "backend/iptables/diff.h"
#include "backend/iptables/tables.h"
#include "support/history.h"

namespace iptables {
namespace {

Tables in_kernel(const Programs& programs) {
  std::string dump;
  for (const Table table : kTables) {
    const auto text = programs.save(table);
    EXPECT_TRUE(text) << text.error().text;
    dump += text.value_or("");
  }
  return Tables::parse_save(dump);
}

class Kernel : public testing::TestWithParam<net::Family> {
 protected:
  Kernel() : programs_(GetParam()) {
    context_.family = options_.family = GetParam();
    context_.node_name = "node1";
    context_.zone = "zone-a";
    context_.node_ip = build::ip(GetParam() == net::Family::V4 ? "172.31.0.11" : "fd00:31::11");
    options_.localhost_node_ports = GetParam() == net::Family::V4;
    options_.count_invalid = options_.count_localhost = false;
    options_.local_traffic.by = plan::LocalTraffic::By::Source;
    options_.local_traffic.cidr =
        build::cidr(GetParam() == net::Family::V4 ? "10.244.0.0/16" : "fd00:244::/64");
  }
  ~Kernel() override {
    for (const Table table : kTables) {
      if (const auto dump = programs_.save(table))
        (void)programs_.restore(diff_removal(table, *dump, owned()).transaction);
    }
  }

  SyncInput input() const { return {options_, node_ports_}; }
  std::vector<plan::ServicePlan> all() const {
    return plan::compile_all(store_.snapshot()->services, context_);
  }
  std::vector<plan::ServicePlan> some(const model::DirtySet& dirty) const {
    return plan::compile_some(store_.snapshot()->services, dirty.services, context_);
  }

  // Commits to both, and expects both to hold the same afterwards.
  void commit(Transaction transaction) {
    const std::string text = transaction.str();
    const auto on_value = tables_.apply(text);
    ASSERT_TRUE(on_value) << on_value.error().text;
    const auto on_kernel = programs_.restore(std::move(transaction));
    ASSERT_TRUE(on_kernel) << on_kernel.error().text << "\n" << text;
  }
  void full() {
    auto observed = programs_.observe_all();
    ASSERT_TRUE(observed) << observed.error().text;
    commit(diff_full(input(), all(), std::move(*observed), ledger_));
  }

  Programs programs_;
  model::Store store_{"node1"};
  plan::Context context_;
  RuleOptions options_;
  NodePortAddresses node_ports_;
  Ledger ledger_;
  Tables tables_ = in_kernel(programs_);
};

TEST_P(Kernel, FollowsAHistoryOf250ChangesThroughPartialSyncs) {
  full();
  history::Generator generator(20261115);
  model::DirtySet dirty;
  for (int i = 0; i < 250; ++i) {
    dirty.merge(store_.fold(generator.next()));
    if (i % 4 == 3) commit(diff_partial(input(), some(std::exchange(dirty, {})), ledger_));
    if (HasFatalFailure()) return;
    if (i % 20 == 19) {
      ASSERT_EQ(in_kernel(programs_).save(), tables_.save()) << "after change " << i;
    }
  }
  commit(diff_partial(input(), some(dirty), ledger_));
  EXPECT_EQ(in_kernel(programs_).save(), tables_.save());

  // Where the partial syncs ended, a full one finds nothing to do.
  auto observed = programs_.observe_all();
  ASSERT_TRUE(observed);
  Ledger fresh;
  EXPECT_EQ(diff_full(input(), all(), std::move(*observed), fresh).str(), "");
}

TEST_P(Kernel, RejectsWhatTablesReject) {
  for (const auto* text :
       {"*nat\n-A OUTPUT -j KUBE-NOT-THERE\nCOMMIT\n", "*nat\n-X KUBE-A\nCOMMIT\n",
        "*nat\n:KUBE-A - [0:0]\n-A OUTPUT -j KUBE-A\n-X KUBE-A\nCOMMIT\n",
        "*nat\n:KUBE-A - [0:0]\n-A KUBE-A -j RETURN\n-X KUBE-A\nCOMMIT\n",
        "*nat\n-D OUTPUT -j KUBE-A\nCOMMIT\n", "*bogus\nCOMMIT\n"}) {
    Transaction transaction;
    transaction.pieces.emplace_back(text);
    EXPECT_FALSE(programs_.restore(std::move(transaction))) << text;
    EXPECT_FALSE(Tables(tables_).apply(text)) << text;
    EXPECT_EQ(in_kernel(programs_).save(), tables_.save()) << "half applied: " << text;
  }
}

TEST_P(Kernel, ASyncThatFailsLeavesTheOldStateWhole) {
  for (const auto& change : history::Generator(7).changes(40))
    store_.fold(change);
  full();
  const std::string before = in_kernel(programs_).save();
  Transaction broken;
  broken.pieces.emplace_back(
      "*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j KUBE-NOT-THERE\nCOMMIT\n");
  EXPECT_FALSE(programs_.restore(std::move(broken)));
  EXPECT_EQ(in_kernel(programs_).save(), before);
}

INSTANTIATE_TEST_SUITE_P(Families, Kernel, testing::ValuesIn(net::kFamilies),
                         [](const auto& family) { return std::string(net::name(family.param)); });

}  // namespace
}  // namespace iptables

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
