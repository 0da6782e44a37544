#include "daemon/schedule.h"

#include <gtest/gtest.h>

namespace proxyd {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr Schedule::Time at(int s) { return Schedule::Time(seconds(1'000'000 + s)); }

Schedule schedule() { return Schedule({seconds(1), seconds(30), hours(1)}, at(0)); }

TEST(Schedule, NothingIsDueBeforeTheFirstRequest) { EXPECT_FALSE(schedule().due(at(100'000))); }

TEST(Schedule, TheFirstRequestIsServedAtOnce) {
  auto s = schedule();
  s.request();
  EXPECT_TRUE(s.due(at(0)));
}

TEST(Schedule, RequestsKeepTheMinimumIntervalFromTheEndOfTheLastRun) {
  auto s = schedule();
  s.request();
  s.started();
  s.finished(at(10), true);
  s.request();
  EXPECT_FALSE(s.due(at(10)));
  EXPECT_TRUE(s.due(at(11)));
}

TEST(Schedule, ARequestDuringARunIsServedAfterIt) {
  auto s = schedule();
  s.request();
  s.started();
  s.request();
  s.finished(at(10), true);
  EXPECT_EQ(s.next(), at(11));
}

TEST(Schedule, AfterAQuietTimeARequestIsServedAtOnce) {
  auto s = schedule();
  s.request();
  s.started();
  s.finished(at(10), true);
  s.request();
  EXPECT_TRUE(s.due(at(500)));
}

TEST(Schedule, AFailedRunIsRepeatedAfterTheRetryInterval) {
  auto s = schedule();
  s.request();
  s.started();
  s.finished(at(10), false);
  EXPECT_EQ(s.next(), at(40));
  s.started();
  s.finished(at(41), true);
  EXPECT_EQ(s.next(), at(41 + 3600));
}

TEST(Schedule, ARunAtLeastEveryMaximumInterval) {
  auto s = schedule();
  s.request();
  s.started();
  s.finished(at(0), true);
  EXPECT_EQ(s.next(), at(3600));
}

}  // namespace
}  // namespace proxyd
