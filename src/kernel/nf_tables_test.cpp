#include "kernel/nf_tables.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/attributes.h"
#include "kernel/process.h"
#include "support/own_network.h"

namespace kernel::nf_tables {
namespace {

using base::ErrorCode;
using net::Family;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kTable = "test";
constexpr std::array<uint8_t, 8> kKey{10, 0, 0, 1, 0, 80, 0, 0};

class NfTables : public build::OwnNetwork {
 protected:
  void SetUp() override {
    OwnNetwork::SetUp();
    if (IsSkipped()) return;
    Batch probe(Family::V4, kTable);
    probe.add_table();
    probe.delete_table();
    const auto done = probe.commit("probe");
    if (!done) GTEST_SKIP() << "needs nf_tables: " << done.error().text;
  }

  static void add_set(Batch& batch) {
    batch.add_table();
    batch.add_set({.name = "s", .key = {FieldType::Ipv4, FieldType::Port}, .timeout = 60s});
  }

  static void commit(Batch& batch) {
    const auto done = batch.commit("test");
    ASSERT_TRUE(done) << done.error().text;
  }

  // And deletes it.
  static bool table_was_there() {
    Batch batch(Family::V4, kTable);
    batch.delete_table();
    return batch.commit("test").has_value();
  }

  static size_t count_elements() {
    netlink::Message message;
    auto* header = message.add_netfilter(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETSETELEM, NLM_F_DUMP,
                                         NFPROTO_IPV4);
    mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_TABLE, kTable);
    mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_SET, "s");
    message.close(header);
    size_t count = 0;
    const auto each = [&](const nlmsghdr& answer) {
      for (const nlattr& list : netlink::Attributes::of(answer, sizeof(nfgenmsg))) {
        if (mnl_attr_get_type(&list) != NFTA_SET_ELEM_LIST_ELEMENTS) continue;
        for ([[maybe_unused]] const nlattr& element : netlink::Attributes::inside(list))
          ++count;
      }
    };
    auto conversation = netlink::Conversation::open(NETLINK_NETFILTER);
    const auto done = conversation->ask(message, "list elements", each);
    EXPECT_TRUE(done) << done.error().text;
    return count;
  }
};

TEST_F(NfTables, ABatchHappensAsAWholeOrNotAtAll) {
  Batch batch(Family::V4, kTable);
  batch.add_table();
  batch.add_rule("no-such-chain", {});
  const auto done = batch.commit("test");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::NotFound) << done.error().text;
  EXPECT_FALSE(table_was_there());
}

TEST_F(NfTables, WhatIsThereMayBeAddedAgain) {
  for (int i = 0; i < 2; ++i) {
    Batch batch(Family::V4, kTable);
    add_set(batch);
    batch.add_chain({.name = "c", .hook = Chain::Hook{NF_INET_PRE_ROUTING, -150}});
    batch.add_element("s", {.key = kKey});
    commit(batch);
  }
  EXPECT_EQ(count_elements(), 1U);
  EXPECT_TRUE(table_was_there());
}

TEST_F(NfTables, ElementsMayTakeManyMessages) {
  constexpr uint32_t kCount = 10'000;
  Batch batch(Family::V4, kTable);
  add_set(batch);
  for (uint32_t i = 0; i < kCount; ++i) {
    auto key = kKey;
    key[2] = static_cast<uint8_t>(i >> 8);
    key[3] = static_cast<uint8_t>(i);
    batch.add_element("s", {.key = key});
  }
  commit(batch);
  EXPECT_EQ(count_elements(), kCount);
}

TEST_F(NfTables, TheProgramNftReadsItAsItWasMeant) {
  Batch batch(Family::V4, kTable);
  add_set(batch);
  batch.add_element("s", {.key = kKey});
  batch.add_chain({.name = "c", .hook = Chain::Hook{NF_INET_PRE_ROUTING, -150}});
  batch.add_rule("c",
                 {{Load::meta(NFT_META_L4PROTO), Compare::equal(static_cast<uint8_t>(IPPROTO_TCP)),
                   Load{Load::From::TransportHeader, 13, 1}, Mask::of(uint8_t{0x12}),
                   Compare::unequal(uint8_t{0x02}), Load{Load::From::NetworkHeader, 12, 4},
                   Load{Load::From::TransportHeader, 0, 2, 1}, Lookup{"s"}, RejectWithReset{}}});
  batch.add_chain({.name = "o", .hook = Chain::Hook{NF_INET_LOCAL_OUT, -300}});
  batch.add_rule("o", {{Load::conntrack(NFT_CT_STATE), Mask::of(uint32_t{8}),
                        Compare::unequal(uint32_t{0}), NoTrack{}}});
  commit(batch);

  const auto printed = run({.argv = {"nft", "list", "table", "ip", kTable}});
  if (!printed) GTEST_SKIP() << printed.error().text;
  EXPECT_THAT(printed->out, HasSubstr("type ipv4_addr . inet_service"));
  EXPECT_THAT(printed->out, HasSubstr("timeout 1m"));
  EXPECT_THAT(printed->out, HasSubstr("10.0.0.1 . 80"));
  EXPECT_THAT(printed->out, HasSubstr("hook prerouting priority mangle"));
  EXPECT_THAT(printed->out, HasSubstr("tcp flags != syn / syn,ack ip saddr . tcp sport @s "
                                      "reject with tcp reset"));
  EXPECT_THAT(printed->out, HasSubstr("ct state new notrack"));
}

}  // namespace
}  // namespace kernel::nf_tables
