#include "backend/iptables/look_pace.h"

#include <gtest/gtest.h>

namespace iptables {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const LookPace::Time kNow = LookPace::Time() + std::chrono::hours(1);

TEST(LookPace, LookingCostsLittleOfTheTime) {
  LookPace pace;
  EXPECT_TRUE(pace.is_due(kNow, false));
  pace.looked(kNow, seconds(1), false);
  EXPECT_FALSE(pace.is_due(kNow + seconds(299), false));
  EXPECT_TRUE(pace.is_due(kNow + seconds(299), true));
  EXPECT_TRUE(pace.is_due(kNow + seconds(300), false));
}

TEST(LookPace, WhatIsFoundAgainAndAgainIsLookedForLessOften) {
  LookPace pace;
  pace.looked(kNow, seconds(0), true);
  EXPECT_TRUE(pace.is_due(kNow, true));
  pace.looked(kNow, seconds(0), true);
  EXPECT_FALSE(pace.is_due(kNow + minutes(2) - seconds(1), true));
  EXPECT_TRUE(pace.is_due(kNow + minutes(2), true));
  pace.looked(kNow, seconds(0), false);
  pace.looked(kNow + minutes(2), seconds(0), true);
  EXPECT_TRUE(pace.is_due(kNow + minutes(2), true));
}

}  // namespace
}  // namespace iptables
