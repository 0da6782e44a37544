#include "daemon/sync_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace proxyd {
namespace {

using build::key;
using std::chrono::hours;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Remembers what it was asked for, and fails or is flushed when told to.
class FakeBackend : public backend::Backend {
 public:
  struct State {
    std::vector<backend::SyncRequest> requests;
    bool fail = false;
    bool flushed = false;
    size_t cleanup_failures = 0;
    bool unfinished = false;
    int checks = 0;
    int counts = 0;
    bool can_count = true;
    std::vector<backend::Problem> problems;
    backend::Backend::Time tend_at = backend::Backend::Time::max();
    int tended = 0;
  };
  explicit FakeBackend(State& state) : state_(state) {}

  net::Family family() const override { return net::Family::V4; }
  base::Result<backend::SyncReport> sync(const backend::SyncRequest& request) override {
    state_.requests.push_back(request);
    if (state_.fail) return base::fail(base::ErrorCode::System, "told to fail");
    state_.flushed = false;
    return backend::SyncReport{.full = request.full,
                               .unfinished = state_.unfinished,
                               .cleanup_failures = state_.cleanup_failures,
                               .tables = {},
                               .warnings = {},
                               .problems = state_.problems};
  }
  Time tend(Time now) override {
    if (now >= state_.tend_at) {
      ++state_.tended;
      state_.tend_at = Time::max();
    }
    return state_.tend_at;
  }
  base::Result<std::vector<backend::PortConnections>> count_connections(
      const model::Snapshot&) override {
    ++state_.counts;
    if (!state_.can_count) return base::fail(base::ErrorCode::Unsupported, "cannot count");
    return std::vector<backend::PortConnections>{};
  }
  bool flushed(bool) override {
    ++state_.checks;
    return state_.flushed;
  }

 private:
  State& state_;
};

class SyncLoopTest : public testing::Test {
 protected:
  SyncLoop loop(Schedule::Duration sync_period = seconds(30), Schedule::Duration count = {},
                const std::string& mode = "iptables") {
    const auto metrics = std::make_shared<metrics::Metrics>(mode);
    metrics_ = metrics;
    return SyncLoop(std::make_unique<FakeBackend>(state_),
                    {.min_sync = seconds(1),
                     .sync = sync_period,
                     .count = count,
                     .mode = mode,
                     .problems = [this](const Problems& found) { problems_.push_back(found); }},
                    metrics,
                    Aftermath({.context = {},
                               .metrics = metrics,
                               .health = health_,
                               .publish = [](const auto&) {},
                               .sweep = [](const auto&) { return kernel::Sweep{}; }}),
                    [this] { return now_; });
  }
  Update update(std::initializer_list<const char*> services) {
    Update made{std::make_shared<const model::Snapshot>(), {}};
    for (const auto* name : services)
      made.dirty.services.insert(key(name));
    return made;
  }
  // A turn that many seconds after the start.
  SyncLoop::Time turn(SyncLoop& loop, int s, std::optional<Update> letter = std::nullopt) {
    now_ = start_ + seconds(s);
    return loop.turn(std::move(letter));
  }
  // Somebody else changes the rules.
  static Update disturbance(backend::Disturbance disturbance) {
    return {.disturbance = disturbance};
  }
  std::vector<bool> full_or_not() const {
    std::vector<bool> out;
    for (const auto& request : state_.requests)
      out.push_back(request.full);
    return out;
  }

  FakeBackend::State state_;
  std::vector<Problems> problems_;
  std::shared_ptr<metrics::Metrics> metrics_;  // of the last loop
  std::shared_ptr<serve::Health> health_ = std::make_shared<serve::Health>(seconds(60));
  SyncLoop::Time start_{hours(1000)};
  SyncLoop::Time now_ = start_;
};

TEST_F(SyncLoopTest, TheBackendIsTendedWhenItAsksFor) {
  auto one = loop();
  state_.tend_at = start_ + seconds(7);
  EXPECT_EQ(turn(one, 0, update({"default/a"})), start_ + seconds(7));
  turn(one, 6);
  EXPECT_EQ(state_.tended, 0);
  turn(one, 7);
  turn(one, 8);
  EXPECT_EQ(state_.tended, 1);
}

TEST_F(SyncLoopTest, ProblemsOfServicesAreHandedOnWithWhatWasLookedAt) {
  auto one = loop();
  state_.problems = {{key("default/a"), "too heavy"}};
  turn(one, 0, update({"default/a"}));
  state_.problems.clear();
  turn(one, 2, update({"default/b"}));
  ASSERT_EQ(problems_.size(), 2U);
  EXPECT_TRUE(problems_[0].full);
  EXPECT_THAT(problems_[0].found, ElementsAre(backend::Problem{key("default/a"), "too heavy"}));
  EXPECT_FALSE(problems_[1].full);
  EXPECT_THAT(problems_[1].services, ElementsAre(key("default/b")));
  EXPECT_THAT(problems_[1].found, IsEmpty());
}

TEST_F(SyncLoopTest, InModeIpvsALookThatFindsAllInOrderIsARun) {
  const auto runs = [&](const std::string& mode) {
    auto one = loop(seconds(30), {}, mode);
    turn(one, 0, update({}));
    turn(one, 31);
    turn(one, 62);
    return metrics_->text();
  };
  const std::string counted =
      "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} ";
  EXPECT_THAT(runs("ipvs"), HasSubstr(counted + "3\n"));
  EXPECT_THAT(runs("nftables"), HasSubstr(counted + "1\n"));
}

TEST_F(SyncLoopTest, ConnectionsAreCountedOnlyIfAskedFor) {
  auto quiet = loop();
  turn(quiet, 0, update({}));
  turn(quiet, 100);
  EXPECT_EQ(state_.counts, 0);
  auto counting = loop(seconds(30), seconds(15));
  turn(counting, 100, update({}));
  turn(counting, 114);
  EXPECT_EQ(state_.counts, 0);
  turn(counting, 115);
  turn(counting, 116);
  EXPECT_EQ(state_.counts, 1);
}

TEST_F(SyncLoopTest, AModeThatCannotCountIsAskedOnce) {
  state_.can_count = false;
  auto l = loop(seconds(30), seconds(15));
  for (int s = 0; s < 100; s += 5)
    turn(l, s, update({}));
  EXPECT_EQ(state_.counts, 1);
}

TEST_F(SyncLoopTest, AFailedSyncHandsItsChangesToTheNext) {
  auto l = loop();
  turn(l, 0, update({}));
  state_.fail = true;
  turn(l, 10, update({"a/b"}));
  state_.fail = false;
  turn(l, 11, update({"a/c"}));
  EXPECT_THAT(state_.requests.back().dirty.services, ElementsAre(key("a/b"), key("a/c")));
  turn(l, 20, update({"a/d"}));
  EXPECT_THAT(state_.requests.back().dirty.services, ElementsAre(key("a/d")));
}

TEST_F(SyncLoopTest, NothingHappensBeforeTheFirstUpdate) {
  auto l = loop();
  turn(l, 500);
  EXPECT_THAT(state_.requests, IsEmpty());
}

TEST_F(SyncLoopTest, TheFirstSyncIsFullAndLaterOnesArePartial) {
  auto l = loop();
  turn(l, 0, update({"a/a"}));
  turn(l, 5, update({"a/b"}));
  EXPECT_THAT(full_or_not(), ElementsAre(true, false));
  EXPECT_THAT(state_.requests[1].dirty.services, ElementsAre(key("a/b")));
}

TEST_F(SyncLoopTest, UpdatesWithinTheMinimumIntervalAreOneSync) {
  auto l = loop();
  turn(l, 0, update({"a/a"}));
  turn(l, 0, update({"a/b"}));
  EXPECT_EQ(turn(l, 0, update({"a/c"})), start_ + seconds(1));
  EXPECT_EQ(state_.requests.size(), 1U);
  turn(l, 1);
  ASSERT_EQ(state_.requests.size(), 2U);
  EXPECT_THAT(state_.requests[1].dirty.services, ElementsAre(key("a/b"), key("a/c")));
}

TEST_F(SyncLoopTest, APartialSyncThatFailsIsTriedAsAFullOneAtOnceAndAfterTheSyncPeriod) {
  auto l = loop();
  turn(l, 0, update({"a/a"}));
  state_.fail = true;
  turn(l, 5, update({"a/b"}));
  EXPECT_THAT(full_or_not(), ElementsAre(true, false, true));
  state_.fail = false;
  turn(l, 34);
  EXPECT_EQ(state_.requests.size(), 3U);
  turn(l, 35);
  EXPECT_THAT(full_or_not(), ElementsAre(true, false, true, true));
}

TEST_F(SyncLoopTest, WhatIsUnfinishedIsTriedAgainAfterTheSyncPeriod) {
  auto l = loop();
  state_.unfinished = true;
  turn(l, 0, update({"a/a"}));
  state_.unfinished = false;
  turn(l, 29);
  EXPECT_EQ(state_.requests.size(), 1U);
  turn(l, 30);
  EXPECT_THAT(full_or_not(), ElementsAre(true, false));
  turn(l, 100);
  EXPECT_EQ(state_.requests.size(), 2U);
}

TEST_F(SyncLoopTest, AChangeWhileSyncsFailIsNotLost) {
  auto l = loop();
  state_.fail = true;
  turn(l, 0, update({"a/a"}));
  turn(l, 5, update({"a/b"}));
  state_.fail = false;
  turn(l, 35);
  EXPECT_TRUE(state_.requests.back().full) << "a full sync needs no list of what is dirty";
}

TEST_F(SyncLoopTest, FlushedRulesAreNoticedEverySyncPeriodAndLookedAtAgainSoon) {
  auto l = loop();
  turn(l, 0, update({"a/a"}));
  state_.flushed = true;
  turn(l, 29);
  EXPECT_EQ(state_.requests.size(), 1U);
  EXPECT_EQ(turn(l, 30), start_ + seconds(31));
  EXPECT_THAT(full_or_not(), ElementsAre(true, true));
}

TEST_F(SyncLoopTest, FlushedRulesOfModeUserspaceAreWrittenAtOnce) {
  auto l = loop(seconds(30), {}, "userspace");
  turn(l, 0, update({"a/a"}));
  state_.flushed = true;
  EXPECT_EQ(turn(l, 30), start_ + seconds(31));
  EXPECT_THAT(full_or_not(), ElementsAre(true, true));
}

TEST_F(SyncLoopTest, ASureDisturbanceIsWrittenOverAtOnceAndAPossibleOneLookedAt) {
  auto l = loop(seconds(30), {}, "nftables");
  turn(l, 0, update({"a/a"}));
  turn(l, 0, disturbance(backend::Disturbance::Sure));  // within the minimum interval
  ASSERT_EQ(state_.requests.size(), 2U);
  EXPECT_TRUE(state_.requests[1].full && state_.requests[1].rewrite);
  turn(l, 20, disturbance(backend::Disturbance::Maybe));
  ASSERT_EQ(state_.requests.size(), 3U);
  EXPECT_TRUE(state_.requests[2].full && !state_.requests[2].rewrite);
  turn(l, 25, update({"a/b"}));
  EXPECT_FALSE(state_.requests[3].full || state_.requests[3].rewrite);
  EXPECT_THAT(metrics_->text(), HasSubstr("kubeproxy_kernel_drift_total{ip_family=\"IPv4\"} 1\n"));
}

TEST_F(SyncLoopTest, ADisturbanceBeforeTheFirstSyncIsNoNews) {
  auto l = loop(seconds(30), {}, "nftables");
  turn(l, 0, disturbance(backend::Disturbance::Sure));
  EXPECT_THAT(state_.requests, IsEmpty());
  turn(l, 1, update({}));
  turn(l, 2);
  ASSERT_EQ(state_.requests.size(), 1U);
  EXPECT_FALSE(state_.requests[0].rewrite) << "what is there is adopted";
}

TEST_F(SyncLoopTest, ANeighbourWhoNeverStopsIsMendedEverSeldomer) {
  auto l = loop(seconds(30), {}, "nftables");
  turn(l, 0, update({}));
  for (int s = 1; s <= 600; ++s)
    turn(l, s, disturbance(backend::Disturbance::Sure));
  // At once, some while the pauses grow, then every syncPeriod.
  EXPECT_LT(state_.requests.size(), 32U);
  EXPECT_GT(state_.requests.size(), 20U);
  const auto before = state_.requests.size();
  turn(l, 632);
  EXPECT_EQ(state_.requests.size(), before + 1) << "the last one is mended as well";
  turn(l, 900, disturbance(backend::Disturbance::Sure));
  EXPECT_EQ(state_.requests.size(), before + 2) << "at once again after some calm";
}

TEST_F(SyncLoopTest, WhileAMendIsPutOffChangesAreNot) {
  auto l = loop(seconds(30), {}, "nftables");
  turn(l, 0, update({}));
  for (int s = 1; s <= 100; ++s)
    turn(l, s, disturbance(backend::Disturbance::Sure));
  const auto before = state_.requests.size();
  turn(l, 102, update({"a/b"}));
  ASSERT_EQ(state_.requests.size(), before + 1);
  EXPECT_FALSE(state_.requests.back().full);
}

TEST_F(SyncLoopTest, AMendThatFailsIsTriedAgainAsOne) {
  auto l = loop(seconds(30), {}, "nftables");
  turn(l, 0, update({}));
  state_.fail = true;
  turn(l, 5, disturbance(backend::Disturbance::Sure));
  state_.fail = false;
  turn(l, 35);
  ASSERT_EQ(state_.requests.size(), 3U);
  EXPECT_TRUE(state_.requests[2].full && state_.requests[2].rewrite);
}

TEST_F(SyncLoopTest, InModeNftablesWhatWasNotHeardIsSeenEverySyncPeriod) {
  auto l = loop(seconds(30), {}, "nftables");
  turn(l, 0, update({}));
  state_.flushed = true;
  turn(l, 30);
  EXPECT_THAT(full_or_not(), ElementsAre(true, true));
}

TEST_F(SyncLoopTest, ServiceCidrsAloneAreReasonForASync) {
  auto l = loop(seconds(30), {}, "nftables");
  turn(l, 0, update({}));
  Update letter = update({});
  letter.dirty.service_cidrs = true;
  turn(l, 5, std::move(letter));
  ASSERT_EQ(state_.requests.size(), 2U);
  EXPECT_TRUE(state_.requests[1].dirty.service_cidrs);
}

TEST_F(SyncLoopTest, ChainsThatCouldNotBeDeletedAreCounted) {
  auto l = loop(seconds(30), {}, "nftables");
  state_.cleanup_failures = 2;
  turn(l, 0, update({}));
  EXPECT_THAT(metrics_->text(),
              HasSubstr("nftables_cleanup_failures_total{ip_family=\"IPv4\"} 2\n"));
}

TEST_F(SyncLoopTest, AFullSyncRunsEveryHour) {
  auto l = loop();
  turn(l, 0, update({"a/a"}));
  turn(l, 3599);
  EXPECT_THAT(full_or_not(), ElementsAre(true));
  turn(l, 3600);
  EXPECT_THAT(full_or_not(), ElementsAre(true, true));
}

TEST_F(SyncLoopTest, TheLongestPeriodDoesNotOverflow) {
  auto l = loop(Schedule::Duration::max());
  EXPECT_EQ(turn(l, 0, update({"a/a"})), start_ + hours(1));
  EXPECT_EQ(state_.checks, 0);
}

}  // namespace
}  // namespace proxyd
