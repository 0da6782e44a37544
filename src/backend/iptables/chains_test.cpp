#include "backend/iptables/chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/iptables/tables.h"

namespace iptables {
namespace {

using testing::ElementsAre;

const std::vector<FixedChain> kChains{
    {.table = Table::Nat, .name = "KUBE-X", .rules = "-A KUBE-X -j RETURN\n"}};
const std::vector<Jump> kJumps{{Table::Nat, "OUTPUT", "KUBE-X", " -p tcp", true},
                               {Table::Nat, "OUTPUT", "KUBE-X", " -p udp", true, true}};

TEST(Chains, AJumpComesAtTheTopOrAtTheBottom) {
  Tables tables = Tables::empty();
  ASSERT_TRUE(tables.apply("*nat\n-A OUTPUT -j OTHER\nCOMMIT\n"));
  const auto transaction = chains_missing(kChains, kJumps, {});
  ASSERT_TRUE(tables.apply(transaction.str()));
  EXPECT_THAT(tables[Table::Nat].at("OUTPUT").rules,
              ElementsAre("-A OUTPUT -p tcp -j KUBE-X", "-A OUTPUT -j OTHER",
                          "-A OUTPUT -p udp -j KUBE-X"));
  EXPECT_EQ(transaction.jumps, 2U);
}

TEST(Chains, WhatIsThereIsNotWrittenAgain) {
  Observed observed;
  DumpReader reader;
  reader.feed(
      ":OUTPUT ACCEPT [0:0]\n:KUBE-X - [0:0]\n-A OUTPUT -p udp -j KUBE-X\n-A OUTPUT -p tcp -j "
      "KUBE-X\n"
      "-A KUBE-X -j RETURN\n");
  observed[Table::Nat] = reader.finish();
  EXPECT_TRUE(chains_missing(kChains, kJumps, observed).empty());
}

TEST(Chains, OnlyChainsThatDifferAreWritten) {
  auto wanted = kChains;
  EXPECT_TRUE(chains_changed(kChains, wanted).empty());
  wanted[0].rules = "-A KUBE-X -j ACCEPT\n";
  EXPECT_EQ(chains_changed(kChains, wanted).str(),
            "*nat\n:KUBE-X - [0:0]\n-A KUBE-X -j ACCEPT\nCOMMIT\n");
}

}  // namespace
}  // namespace iptables
