// On the real kernel: what was written is read back as it was meant, and changes are heard.
#include "kernel/nf_tables_read.h"

#include <linux/netfilter.h>
#include <sys/socket.h>

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/nf_tables_watch.h"
#include "support/own_network.h"

namespace kernel::nf_tables {
namespace {

using net::Family;
using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

constexpr const char* kTable = "test";
constexpr std::array<uint8_t, 8> kKey{10, 0, 0, 1, 0, 80, 0, 0};
constexpr std::array<uint8_t, 8> kEnd{10, 0, 0, 9, 0, 80, 0, 0};
constexpr std::array<uint8_t, 4> kValue{10, 1, 1, 1};

class ReadTable : public build::OwnNetwork {
 protected:
  void SetUp() override {
    OwnNetwork::SetUp();
    if (IsSkipped()) return;
    Batch batch(Family::V4, kTable);
    batch.add_table("what it is for");
    if (const auto done = batch.commit("probe"); !done)
      GTEST_SKIP() << "needs nf_tables: " << done.error().text;
    auto opened = netlink::Conversation::open(NETLINK_NETFILTER);
    ASSERT_TRUE(opened) << opened.error().text;
    conversation_.emplace(std::move(*opened));
  }

  static void commit(Batch& batch) {
    const auto done = batch.commit("test");
    ASSERT_TRUE(done) << done.error().text;
  }
  Reader reader() { return {*conversation_, Family::V4, kTable}; }

  std::optional<netlink::Conversation> conversation_;
};

TEST_F(ReadTable, KnowsWhetherThereIsATable) {
  EXPECT_EQ(reader().has_table(), true);
  EXPECT_EQ(Reader(*conversation_, Family::V6, kTable).has_table(), false);
}

TEST_F(ReadTable, ChainsAndTheTagsOfRulesInOrder) {
  Batch batch(Family::V4, kTable);
  batch.add_chain({.name = "hooked", .hook = Chain::Hook{NF_INET_PRE_ROUTING, -100, "nat"}});
  batch.add_chain({.name = "plain", .comment = "a comment"});
  batch.add_rule("plain", {{Obey{NF_DROP}}, "first", {1, 2}});
  batch.add_rule("plain", {{Obey{NFT_RETURN}}, "", {3}});
  batch.add_rule("plain", {{Obey{NF_DROP}}});
  commit(batch);
  const auto chains = reader().chains();
  ASSERT_TRUE(chains);
  ASSERT_EQ(chains->size(), 2U);
  ASSERT_TRUE((*chains)[0].hook);
  EXPECT_EQ((*chains)[0].hook->type, "nat");
  EXPECT_EQ((*chains)[0].hook->priority, -100);
  EXPECT_FALSE((*chains)[1].hook);
  std::vector<std::vector<uint8_t>> tags;
  const auto rules = reader().rules();
  ASSERT_TRUE(rules);
  for (const auto& rule : *rules)
    tags.push_back(rule.tag);
  EXPECT_THAT(tags, ElementsAre(ElementsAre(1, 2), ElementsAre(3), IsEmpty()));
}

TEST_F(ReadTable, SetsAreAsTheyWereDeclared) {
  const std::vector<Set> sets{
      {.name = "keys", .key = {FieldType::Ipv4}, .comment = "some"},
      {.name = "ranges", .key = {FieldType::Ipv4, FieldType::Port}, .interval = true},
      {.name = "verdicts", .key = {FieldType::Protocol}, .holds = Set::Holds::Verdicts},
      {.name = "values",
       .key = {FieldType::Mark},
       .holds = Set::Holds::Values,
       .value = {FieldType::Ipv6, FieldType::Port},
       .size = 77},
      {.name = "dynamic", .key = {FieldType::Ipv6}, .dynamic = true, .size = 9},
  };
  Batch batch(Family::V4, kTable);
  for (const auto& set : sets)
    batch.add_set(set);
  commit(batch);
  const auto found = reader().sets();
  ASSERT_TRUE(found);
  for (const auto& set : sets) {
    const auto one = std::ranges::find(*found, set.name, &SetInfo::name);
    ASSERT_NE(one, found->end());
    const auto wanted = info_of(set);
    EXPECT_EQ(one->flags, wanted.flags) << set.name;
    EXPECT_EQ(one->key_type, wanted.key_type) << set.name;
    EXPECT_EQ(one->value_size, wanted.value_size) << set.name;
    EXPECT_EQ(one->size, wanted.size) << set.name;
    EXPECT_EQ(one->count.value_or(0), 0U);
  }
}

TEST_F(ReadTable, ElementsOfEveryKind) {
  Batch batch(Family::V4, kTable);
  batch.add_set({.name = "ranges", .key = {FieldType::Ipv4, FieldType::Port}, .interval = true});
  batch.add_set({.name = "verdicts",
                 .key = {FieldType::Ipv4, FieldType::Port},
                 .holds = Set::Holds::Verdicts});
  batch.add_set({.name = "values",
                 .key = {FieldType::Ipv4, FieldType::Port},
                 .holds = Set::Holds::Values,
                 .value = {FieldType::Ipv4},
                 .timeout = 1h});
  batch.add_chain({.name = "c"});
  batch.add_element("ranges", {.key = kKey, .key_end = kEnd});
  batch.add_element("verdicts",
                    {.key = kKey, .verdict = NFT_GOTO, .chain = "c", .comment = "hello"});
  batch.add_element("values", {.key = kKey, .value = kValue, .timeout = 60s, .left = 30s});
  commit(batch);

  const auto range = reader().elements("ranges");
  ASSERT_TRUE(range && range->size() == 1);
  EXPECT_THAT(range->front().key_end, testing::ElementsAreArray(kEnd));
  const auto verdict = reader().elements("verdicts");
  ASSERT_TRUE(verdict && verdict->size() == 1);
  EXPECT_EQ(verdict->front().verdict, NFT_GOTO);
  EXPECT_EQ(verdict->front().chain, "c");
  EXPECT_EQ(verdict->front().comment, "hello");
  const auto value = reader().elements("values");
  ASSERT_TRUE(value && value->size() == 1);
  EXPECT_THAT(value->front().value, testing::ElementsAreArray(kValue));
  EXPECT_EQ(value->front().timeout, 60s);
  EXPECT_LE(value->front().left, 30s);
  EXPECT_GT(value->front().left, 0s);
}

TEST_F(ReadTable, AFailureNamesWhatTheKernelDidNotLike) {
  Batch batch(Family::V4, kTable);
  batch.add_set({.name = "s", .key = {FieldType::Ipv4, FieldType::Port}});
  batch.add_element("s", {.key = kKey});
  batch.delete_element("s", {.key = kEnd});
  const auto done = batch.commit(*conversation_, "do it");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, base::ErrorCode::NotFound);
  EXPECT_THAT(done.error().text, testing::HasSubstr("do it: deletion of an element of s"));
  // The conversation goes on.
  EXPECT_EQ(reader().has_table(), true);
}

TEST_F(ReadTable, AFailureOfALargeMessageIsToldAsWell) {
  Batch batch(Family::V4, kTable);
  batch.add_set({.name = "s", .key = {FieldType::Ipv4, FieldType::Port}, .size = 10});
  for (uint8_t i = 0; i < 250; ++i) {
    for (uint8_t j = 0; j < 8; ++j) {
      const std::array<uint8_t, 8> key{10, 0, j, i, 0, 80, 0, 0};
      batch.add_element("s", {.key = key});
    }
  }
  const auto done = batch.commit("do it");
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().text, testing::HasSubstr("new element of s"));
}

TEST_F(ReadTable, AChainThatIsLedToIsBusy) {
  Batch batch(Family::V4, kTable);
  batch.add_chain({.name = "c"});
  batch.add_chain({.name = "d"});
  batch.add_rule("d", {{Obey{NFT_JUMP, "c"}}});
  commit(batch);
  Batch deletion(Family::V4, kTable);
  deletion.delete_chain("c");
  const auto done = deletion.commit("test");
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().text, testing::HasSubstr("busy"));
}

TEST_F(ReadTable, DumpsThatOthersDisturbAreAskedForAgain) {
  constexpr uint32_t kCount = 5'000;
  Batch batch(Family::V4, kTable);
  batch.add_set({.name = "s", .key = {FieldType::Ipv4, FieldType::Port}});
  batch.add_set({.name = "other", .key = {FieldType::Ipv4, FieldType::Port}});
  for (uint32_t i = 0; i < kCount; ++i) {
    auto key = kKey;
    key[2] = static_cast<uint8_t>(i >> 8);
    key[3] = static_cast<uint8_t>(i);
    batch.add_element("s", {.key = key});
  }
  commit(batch);
  // Five transactions, in the middle of dumps or not: what is read is whole.
  std::jthread neighbour([] {
    for (int i = 0; i < 5; ++i) {
      Batch change(Family::V4, kTable);
      if (i % 2 == 0) {
        change.add_element("other", {.key = kKey});
      } else {
        change.delete_element("other", {.key = kKey});
      }
      EXPECT_TRUE(change.commit("neighbour"));
    }
  });
  for (int i = 0; i < 5; ++i) {
    const auto found = reader().elements("s");
    ASSERT_TRUE(found) << found.error().text;
    EXPECT_EQ(found->size(), kCount);
  }
}

TEST_F(ReadTable, EveryTransactionIsAGeneration) {
  const auto before = generation(*conversation_);
  Batch batch(Family::V6, "another");
  batch.add_table();
  commit(batch);
  EXPECT_EQ(*generation(*conversation_), *before + 1);
}

class WatchTable : public ReadTable {
 protected:
  void SetUp() override {
    ReadTable::SetUp();
    if (IsSkipped()) return;
    const uint32_t own = mnl_socket_get_portid(conversation_->socket());
    auto opened = TableWatch::open(Family::V4, kTable, own, listeners_);
    ASSERT_TRUE(opened) << opened.error().text;
    watch_ = std::move(*opened);
  }

  // By us or by somebody else.
  void add_chain(bool own, Family family = Family::V4, const char* table = kTable) {
    Batch batch(family, table);
    batch.add_table();
    batch.add_chain({.name = "c" + std::to_string(++chains_)});
    const auto done = own ? batch.commit(*conversation_, "own") : batch.commit("other");
    ASSERT_TRUE(done) << done.error().text;
  }

  std::shared_ptr<Listeners> listeners_ = std::make_shared<Listeners>();
  std::unique_ptr<TableWatch> watch_;
  int chains_ = 0;
};

TEST_F(WatchTable, HearsOthersButNotItself) {
  add_chain(true);
  EXPECT_EQ(watch_->drain(), News::Nothing);
  add_chain(false);
  EXPECT_EQ(watch_->drain(), News::Changed);
  EXPECT_EQ(watch_->drain(), News::Nothing);
}

TEST_F(WatchTable, OtherTablesAreNoNews) {
  add_chain(false, Family::V6);
  add_chain(false, Family::V4, "another");
  EXPECT_EQ(watch_->drain(), News::Nothing);
}

TEST_F(WatchTable, HearsThatTheTableIsGone) {
  Batch batch(Family::V4, kTable);
  batch.delete_table();
  commit(batch);
  EXPECT_EQ(watch_->drain(), News::Changed);
}

TEST_F(WatchTable, HearsNothingInSilenceAndThenAgain) {
  {
    const Listeners::Silence one(*listeners_);
    const Listeners::Silence two(*listeners_);
    add_chain(false);
  }
  EXPECT_EQ(watch_->drain(), News::Nothing);
  add_chain(false);
  EXPECT_EQ(watch_->drain(), News::Changed);
}

}  // namespace
}  // namespace kernel::nf_tables
