#include "daemon/reset_watch.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace proxyd {
namespace {

using build::ip;
using build::key;
using build::service;
using build::slice;
using net::Flow;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using namespace std::chrono_literals;

constexpr auto kDrain = 30s;
constexpr auto kLinger = 120s;

// A client of the cluster IP, answered by that pod.
Flow flow(const std::string& pod, uint16_t client_port = 4711, const char* to = "10.96.0.1",
          uint16_t port = 80) {
  const auto client = ip("10.244.2.9");
  return {net::Protocol::Tcp,
          {client, ip(to), client_port, port},
          {ip(pod), client, 8080, client_port}};
}

class ResetWatchTest : public testing::Test {
 protected:
  using Time = ResetWatch::Time;

  template <typename... Changes>
  void sync(Changes... changes) {
    model::DirtySet dirty;
    (dirty.merge(store_.fold(std::move(changes))), ...);
    watch_.synced(store_.snapshot(), dirty, now_);
  }

  void web(std::initializer_list<const char*> pods) {
    auto made = slice("default/web", "s").port("", 8080);
    for (const auto* pod : pods)
      made.ready(pod);
    sync(service("default/web").cluster_ip("10.96.0.1").port("", 80).ptr(), made.ptr());
  }

  // As SyncLoop does: comes back whenever something is due, until that time.
  void pass(Schedule::Duration duration) {
    const Time end = now_ + duration;
    for (auto next = watch_.next(); next && *next <= end; next = watch_.next()) {
      ASSERT_LT(++wakes_, 100) << "comes back for ever";
      now_ = std::max(now_, *next);
      watch_.run(now_);
    }
    now_ = end;
  }

  // The kernel: tracked connections, and whether our table is there.
  base::Result<std::vector<Flow>> reset(const ResetWatch::Doomed& doomed, size_t limit) {
    if (broken_) {
      table_ = true;  // it may break after that
      return base::fail(base::ErrorCode::System, "no");
    }
    std::vector<Flow> found;
    std::erase_if(tracked_, [&](const Flow& one) {
      if (found.size() == limit || !doomed(one)) return false;
      found.push_back(one);
      return true;
    });
    if (!found.empty()) table_ = true;
    reset_.insert(reset_.end(), found.begin(), found.end());
    return found;
  }

  model::Store store_{"node1"};
  Time now_{1h};
  std::vector<Flow> tracked_;
  std::vector<Flow> reset_;
  bool table_ = false;
  bool broken_ = false;
  int wakes_ = 0;
  ResetWatch watch_{net::Family::V4,
                    kDrain,
                    {[this](const auto& doomed, size_t limit) { return reset(doomed, limit); },
                     [this] {
                       table_ = false;
                       return base::Result<>{};
                     },
                     kLinger, [] { return std::vector<net::IpAddr>(); }}};
};

TEST_F(ResetWatchTest, ConnectionsToAnEndpointThatIsGoneAreResetAfterTheDrainTime) {
  web({"10.244.1.5", "10.244.1.6"});
  tracked_ = {flow("10.244.1.5"), flow("10.244.1.6", 4712)};
  web({"10.244.1.6"});
  pass(kDrain - 1ms);
  EXPECT_THAT(reset_, IsEmpty());
  pass(1ms);
  EXPECT_THAT(reset_, ElementsAre(flow("10.244.1.5")));
  EXPECT_THAT(tracked_, ElementsAre(flow("10.244.1.6", 4712)));
}

TEST_F(ResetWatchTest, AnEndpointThatComesBackInTimeKeepsItsConnections) {
  web({"10.244.1.5"});
  tracked_ = {flow("10.244.1.5")};
  web({});
  pass(kDrain / 2);
  web({"10.244.1.5"});
  pass(10min);
  EXPECT_THAT(reset_, IsEmpty());
}

TEST_F(ResetWatchTest, TheDrainTimeStartsAnewWhenItGoesAgain) {
  web({"10.244.1.5"});
  tracked_ = {flow("10.244.1.5")};
  web({});
  pass(kDrain - 1s);
  web({"10.244.1.5"});
  web({});
  pass(kDrain - 1s);
  EXPECT_THAT(reset_, IsEmpty());
  pass(1s);
  EXPECT_THAT(reset_, SizeIs(1));
}

TEST_F(ResetWatchTest, ConnectionsOfADeletedServiceAreReset) {
  web({"10.244.1.5"});
  tracked_ = {flow("10.244.1.5")};
  sync(model::ServiceDeleted{key("default/web")}, model::SliceDeleted{{key("default/web"), "s"}});
  pass(kDrain);
  EXPECT_THAT(reset_, SizeIs(1));
}

TEST_F(ResetWatchTest, ConnectionsThatWereNotMadeThroughAServiceAreLeftAlone) {
  web({"10.244.1.5"});
  tracked_ = {flow("10.244.1.5", 4711, "172.31.0.11", 8000),
              flow("10.244.1.5", 4712, "10.244.1.5", 8080)};
  web({});
  pass(10min);
  EXPECT_THAT(reset_, IsEmpty());
}

TEST_F(ResetWatchTest, AnEndpointOfAnotherServiceIsNotGone) {
  web({"10.244.1.5"});
  sync(service("default/b").cluster_ip("10.96.0.2").port("", 80).ptr(),
       slice("default/b", "s").port("", 8080).ready("10.244.1.5").ptr());
  tracked_ = {flow("10.244.1.5")};
  web({});
  pass(10min);
  EXPECT_THAT(reset_, IsEmpty());
}

TEST_F(ResetWatchTest, WhatWentWhileNoProxyRanIsFoundOnceAfterTheStart) {
  tracked_ = {flow("10.244.1.5"), flow("10.244.1.6", 4712)};
  web({"10.244.1.6"});
  pass(kDrain - 1ms);
  EXPECT_THAT(reset_, IsEmpty());
  pass(1ms);
  EXPECT_THAT(reset_, ElementsAre(flow("10.244.1.5")));
  pass(10min);
  tracked_.push_back(flow("10.244.1.7"));
  web({"10.244.1.6", "10.244.1.8"});
  pass(10min);
  EXPECT_THAT(reset_, SizeIs(1));
}

TEST_F(ResetWatchTest, WhatGoesSoonAfterTheStartHasItsFullDrainTime) {
  web({"10.244.1.5"});
  tracked_ = {flow("10.244.1.5")};
  pass(kDrain - 1s);
  web({});
  pass(kDrain - 1s);
  EXPECT_THAT(reset_, IsEmpty());
  pass(1s);
  EXPECT_THAT(reset_, SizeIs(1));
}

TEST_F(ResetWatchTest, ManyConnectionsAreResetRoundByRound) {
  web({"10.244.1.5"});
  for (uint16_t port = 1; port <= 2 * ResetWatch::kMaxFlows + 1; ++port)
    tracked_.push_back(flow("10.244.1.5", port));
  web({});
  pass(kDrain);
  EXPECT_THAT(reset_, SizeIs(ResetWatch::kMaxFlows));
  pass(ResetWatch::kPause);
  EXPECT_THAT(reset_, SizeIs(2 * ResetWatch::kMaxFlows));
  pass(ResetWatch::kPause);
  EXPECT_THAT(tracked_, IsEmpty());
}

TEST_F(ResetWatchTest, OurRulesGoSomeTimeAfterTheLastReset) {
  web({"10.244.1.5"});
  tracked_ = {flow("10.244.1.5")};
  web({});
  pass(kDrain + kLinger - 1ms);
  EXPECT_TRUE(table_);
  pass(1ms);
  EXPECT_FALSE(table_);
}

TEST_F(ResetWatchTest, NothingIsDueWhenNothingIsGone) {
  EXPECT_FALSE(watch_.next());
  web({"10.244.1.5"});
  pass(kDrain);
  EXPECT_EQ(wakes_, 1) << "the look around after the start";
  web({"10.244.1.5", "10.244.1.6"});
  EXPECT_FALSE(watch_.next());
}

TEST_F(ResetWatchTest, AnErrorIsTriedAgainLater) {
  web({"10.244.1.5"});
  tracked_ = {flow("10.244.1.5")};
  web({});
  broken_ = true;
  pass(kDrain);
  EXPECT_EQ(wakes_, 1);
  broken_ = false;
  pass(ResetWatch::kRetry);
  EXPECT_THAT(reset_, SizeIs(1));
}

TEST_F(ResetWatchTest, AfterAnErrorTheRulesAreRemovedAllTheSame) {
  web({"10.244.1.5"});
  tracked_ = {flow("10.244.1.5")};
  web({});
  broken_ = true;
  pass(kDrain);
  broken_ = false;
  tracked_.clear();
  EXPECT_TRUE(table_);
  pass(ResetWatch::kRetry + kLinger);
  EXPECT_FALSE(table_);
  EXPECT_FALSE(watch_.next());
}

TEST_F(ResetWatchTest, WhileThereAreErrorsEndpointsAreNotRememberedForEver) {
  web({"10.244.1.5"});
  pass(kDrain);  // strangers have been looked for
  web({});
  broken_ = true;
  for (auto passed = 0s; passed <= kDrain + ResetWatch::kPatience; passed += ResetWatch::kRetry) {
    now_ += ResetWatch::kRetry;
    watch_.run(now_);
  }
  broken_ = false;
  tracked_ = {flow("10.244.1.5")};
  watch_.run(now_ + ResetWatch::kRetry);
  EXPECT_THAT(reset_, IsEmpty());
}

}  // namespace
}  // namespace proxyd
