#include "daemon/mending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace proxyd {
namespace {

using backend::Disturbance;
using namespace std::chrono_literals;
using testing::ElementsAre;

class MendingTest : public testing::Test {
 protected:
  // A disturbance at that time, mended as soon as it may be: when that was.
  std::chrono::milliseconds mended(std::chrono::milliseconds at) {
    mending_.disturbed(Disturbance::Sure, start_ + at);
    const auto when = mending_.next();
    mending_.begin(when);
    return std::chrono::duration_cast<std::chrono::milliseconds>(when - start_);
  }

  Mending mending_{30s};
  Mending::Time start_{1000h};
};

TEST_F(MendingTest, NothingIsDueWhereNothingHappened) {
  EXPECT_EQ(mending_.next(), Mending::Time::max());
  mending_.disturbed(Disturbance::None, start_);
  EXPECT_EQ(mending_.next(), Mending::Time::max());
}

TEST_F(MendingTest, TheFirstIsMendedAtOnceAndPausesDouble) {
  std::vector<int64_t> times;
  for (auto last = 0ms; times.size() < 6; times.push_back(last.count()))
    last = mended(last);
  EXPECT_THAT(times, ElementsAre(0, 100, 300, 700, 1500, 3100));
  EXPECT_EQ(mending_.in_a_row(), 6);
}

TEST_F(MendingTest, PausesEndAtTheLongest) {
  auto last = 0ms;
  for (int i = 0; i < 20; ++i)
    last = mended(last);
  EXPECT_EQ(mended(last) - last, 30s);
}

TEST_F(MendingTest, WhoComesSeldomIsMendedAtOnceEachTime) {
  for (auto at = 0ms; at < 10min; at += 15s)
    EXPECT_EQ(mended(at), at);
  EXPECT_EQ(mending_.in_a_row(), 1);
}

TEST_F(MendingTest, CalmForgives) {
  auto last = 0ms;
  for (int i = 0; i < 20; ++i)
    last = mended(last);
  EXPECT_EQ(mended(last + 59s), last + 59s) << "the pause is over, but not forgotten";
  EXPECT_GT(mending_.in_a_row(), 20);
  EXPECT_EQ(mended(last + 59s + 60s), last + 119s);
  EXPECT_EQ(mending_.in_a_row(), 1);
}

TEST_F(MendingTest, TheWorstOfSeveralIsMendedOnce) {
  mending_.disturbed(Disturbance::Maybe, start_);
  mending_.disturbed(Disturbance::Sure, start_ + 1ms);
  mending_.disturbed(Disturbance::Maybe, start_ + 2ms);
  EXPECT_TRUE(mending_.due(start_)) << "the later ones do not put it off";
  EXPECT_EQ(mending_.begin(start_ + 2ms), Disturbance::Sure);
  EXPECT_FALSE(mending_.due(start_ + 1h));
}

}  // namespace
}  // namespace proxyd
