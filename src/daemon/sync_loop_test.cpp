#include "daemon/sync_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace proxyd {
namespace {

using build::key;
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
  };
  explicit FakeBackend(State& state) : state_(state) {}

  net::Family family() const override { return net::Family::V4; }
  base::Result<backend::SyncReport> sync(const backend::SyncRequest& request) override {
    state_.requests.push_back(request);
    if (state_.fail) return base::fail(base::ErrorCode::System, "told to fail");
    state_.flushed = false;
    return backend::SyncReport{.full = request.full, .warnings = {}};
  }
  bool flushed() override { return state_.flushed; }
  bool wants_hourly_full_sync() const override { return true; }

 private:
  State& state_;
};

class SyncLoopTest : public testing::Test {
 protected:
  SyncLoopTest() : loop_(backends(), {seconds(1), seconds(30)}, mailbox_) {}

  std::vector<std::unique_ptr<backend::Backend>> backends() {
    std::vector<std::unique_ptr<backend::Backend>> list;
    list.push_back(std::make_unique<FakeBackend>(state_));
    return list;
  }
  Update update(std::initializer_list<const char*> services) {
    Update made{std::make_shared<const model::Snapshot>(), {}};
    for (const auto* name : services)
      made.dirty.services.insert(key(name));
    return made;
  }
  // A turn some time from now: the loop itself looks at the real clock when a run ends.
  SyncLoop::Time turn(int s, std::optional<Update> letter = std::nullopt) {
    return loop_.turn(start_ + seconds(s), std::move(letter));
  }

  FakeBackend::State state_;
  event::Mailbox<Update> mailbox_;
  SyncLoop loop_;
  SyncLoop::Time start_ = SyncLoop::Time::clock::now();
};

TEST_F(SyncLoopTest, NothingHappensBeforeTheFirstUpdate) {
  turn(5);
  EXPECT_THAT(state_.requests, IsEmpty());
}

TEST_F(SyncLoopTest, TheFirstSyncIsFullAndLaterOnesArePartial) {
  turn(0, update({"a/a"}));
  turn(5, update({"a/b"}));
  ASSERT_EQ(state_.requests.size(), 2U);
  EXPECT_TRUE(state_.requests[0].full);
  EXPECT_FALSE(state_.requests[1].full);
  EXPECT_THAT(state_.requests[1].dirty.services, ElementsAre(key("a/b")));
}

TEST_F(SyncLoopTest, UpdatesWithinTheMinimumIntervalAreOneSync) {
  turn(0, update({"a/a"}));
  turn(0, update({"a/b"}));
  turn(0, update({"a/c"}));
  EXPECT_EQ(state_.requests.size(), 1U);
  turn(3);
  ASSERT_EQ(state_.requests.size(), 2U);
  EXPECT_THAT(state_.requests[1].dirty.services, ElementsAre(key("a/b"), key("a/c")));
}

TEST_F(SyncLoopTest, APartialSyncThatFailsIsTriedAsAFullOneAtOnceAndAfterTheSyncPeriod) {
  turn(0, update({"a/a"}));
  state_.fail = true;
  turn(5, update({"a/b"}));
  ASSERT_EQ(state_.requests.size(), 3U);
  EXPECT_FALSE(state_.requests[1].full);
  EXPECT_TRUE(state_.requests[2].full);
  state_.fail = false;
  turn(20);
  EXPECT_EQ(state_.requests.size(), 3U);
  turn(32);
  ASSERT_EQ(state_.requests.size(), 4U);
  EXPECT_TRUE(state_.requests[3].full);
}

TEST_F(SyncLoopTest, FlushedRulesAreNoticedEverySyncPeriod) {
  turn(0, update({"a/a"}));
  state_.flushed = true;
  turn(29);
  EXPECT_EQ(state_.requests.size(), 1U);
  const auto next = turn(31);
  ASSERT_EQ(state_.requests.size(), 2U);
  EXPECT_TRUE(state_.requests[1].full);
  EXPECT_LE(next, start_ + seconds(33)) << "looks again soon";
}

TEST_F(SyncLoopTest, AFullSyncRunsEveryHour) {
  turn(0, update({"a/a"}));
  turn(3602);
  ASSERT_EQ(state_.requests.size(), 2U);
}

}  // namespace
}  // namespace proxyd
