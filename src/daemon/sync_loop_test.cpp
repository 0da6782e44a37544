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
using testing::IsEmpty;

// Remembers what it was asked for, and fails or is flushed when told to.
class FakeBackend : public backend::Backend {
 public:
  struct State {
    std::vector<backend::SyncRequest> requests;
    bool fail = false;
    bool flushed = false;
    int checks = 0;
    int counts = 0;
  };
  explicit FakeBackend(State& state) : state_(state) {}

  net::Family family() const override { return net::Family::V4; }
  base::Result<backend::SyncReport> sync(const backend::SyncRequest& request) override {
    state_.requests.push_back(request);
    if (state_.fail) return base::fail(base::ErrorCode::System, "told to fail");
    state_.flushed = false;
    return backend::SyncReport{.full = request.full, .warnings = {}};
  }
  base::Result<std::vector<backend::PortConnections>> count_connections(
      const model::Snapshot&) override {
    ++state_.counts;
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
  SyncLoop loop(Schedule::Duration sync_period = seconds(30), Schedule::Duration count = {}) {
    const auto metrics = std::make_shared<metrics::Metrics>("iptables");
    return SyncLoop(std::make_unique<FakeBackend>(state_), {seconds(1), sync_period, count},
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
  std::vector<bool> full_or_not() const {
    std::vector<bool> out;
    for (const auto& request : state_.requests)
      out.push_back(request.full);
    return out;
  }

  FakeBackend::State state_;
  std::shared_ptr<serve::Health> health_ = std::make_shared<serve::Health>(seconds(60));
  SyncLoop::Time start_{hours(1000)};
  SyncLoop::Time now_ = start_;
};

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
