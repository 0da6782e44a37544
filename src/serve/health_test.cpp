#include "serve/health.h"

#include <thread>

#include <gtest/gtest.h>

namespace serve {
namespace {

using net::Family;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

class HealthTest : public testing::Test {
 protected:
  Health::Wall wall_{hours(480'000)};
  Health::Steady steady_{hours(10)};
  Health health_{seconds(60),
                 {.wall = [this] { return wall_; }, .steady = [this] { return steady_; }}};
};

TEST_F(HealthTest, NothingStartedIsHealthyAndNotEligible) {
  const auto view = health_.look();
  EXPECT_TRUE(view.healthy);
  EXPECT_FALSE(view.node_eligible);
  EXPECT_EQ(view.now, wall_);
  EXPECT_FALSE(view.families[0] || view.families[1]);
}

TEST_F(HealthTest, AFamilyThatHasToWaitTooLongIsNotHealthy) {
  health_.updated(Family::V4);
  health_.updated(Family::V6);
  health_.queued(Family::V4);
  steady_ += seconds(60) - milliseconds(1);
  EXPECT_TRUE(health_.healthy());
  steady_ += milliseconds(1);
  const auto view = health_.look();
  EXPECT_FALSE(view.healthy);
  EXPECT_FALSE(view.families[0]->healthy);
  EXPECT_TRUE(view.families[1]->healthy);
}

TEST_F(HealthTest, TheFirstRequestCountsAndLaterOnesDoNot) {
  health_.updated(Family::V4);
  health_.queued(Family::V4);
  steady_ += seconds(59);
  health_.queued(Family::V4);
  steady_ += seconds(1);
  EXPECT_FALSE(health_.healthy());
}

TEST_F(HealthTest, AnUpdateHeals) {
  health_.updated(Family::V6);
  health_.queued(Family::V6);
  steady_ += hours(1);
  wall_ += hours(1);
  EXPECT_FALSE(health_.healthy());
  health_.updated(Family::V6);
  EXPECT_TRUE(health_.healthy());
  EXPECT_EQ(health_.look().families[1]->last_updated, wall_);
  steady_ += hours(1);
  EXPECT_TRUE(health_.healthy()) << "there is nothing to do";
}

TEST_F(HealthTest, AFamilyThatNeverStartedDoesNotCount) {
  health_.queued(Family::V6);
  steady_ += hours(1);
  EXPECT_TRUE(health_.healthy());
  EXPECT_FALSE(health_.look().families[1]);
}

TEST_F(HealthTest, AClockThatIsSetDecidesNothing) {
  health_.updated(Family::V4);
  health_.queued(Family::V4);
  wall_ += hours(24);
  EXPECT_TRUE(health_.healthy());
  wall_ -= hours(48);
  steady_ += seconds(60);
  EXPECT_FALSE(health_.healthy());
}

TEST_F(HealthTest, TheNodeIsEligibleWhileItIsSaidToBe) {
  health_.set_node_eligible(true);
  EXPECT_TRUE(health_.look().node_eligible);
  health_.set_node_eligible(false);
  EXPECT_FALSE(health_.look().node_eligible);
}

TEST(Health, ThreadsReportAndAskAtOnce) {
  Health health(hours(1));
  {
    const auto report = [&health](Family family) {
      for (int i = 0; i < 2000; ++i) {
        health.queued(family);
        health.updated(family);
      }
    };
    const std::jthread v4(report, Family::V4);
    const std::jthread v6(report, Family::V6);
    for (int i = 0; i < 2000; ++i)
      EXPECT_TRUE(health.healthy());
  }
  EXPECT_TRUE(health.look().families[0] && health.look().families[1]);
}

}  // namespace
}  // namespace serve
