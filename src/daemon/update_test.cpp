#include "daemon/update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/builders.h"

namespace proxyd {
namespace {

using build::key;
using net::Family;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr TriggerTimes::Time at(int s) { return TriggerTimes::Time(seconds(s)); }

TEST(TriggerTimes, AreKeptByFamily) {
  TriggerTimes times;
  times.add(Family::V4, key("a/b"), at(1));
  times.add(Family::V6, key("a/b"), at(2));
  EXPECT_THAT(times.of(Family::V4), ElementsAre(at(1)));
  EXPECT_THAT(times.of(Family::V6), ElementsAre(at(2)));
}

TEST(TriggerTimes, MergeInOrder) {
  TriggerTimes times;
  times.add(Family::V4, key("a/b"), at(1));
  TriggerTimes later;
  later.add(Family::V4, key("a/b"), at(2));
  times.merge(std::move(later));
  EXPECT_THAT(times.of(Family::V4), ElementsAre(at(1), at(2)));
}

TEST(TriggerTimes, ADeletedSliceForgetsWhatCameBeforeIt) {
  TriggerTimes times;
  times.add(Family::V4, key("a/b"), at(1));
  times.add(Family::V4, key("a/c"), at(2));
  TriggerTimes later;
  later.forget(Family::V4, key("a/b"));
  later.add(Family::V4, key("a/b"), at(3));
  times.merge(std::move(later));
  EXPECT_THAT(times.of(Family::V4), ElementsAre(at(3), at(2)));
}

TEST(TriggerTimes, AnEmptyOneChangesNothing) {
  TriggerTimes times;
  times.merge({});
  EXPECT_THAT(times.of(Family::V4), IsEmpty());
}

TEST(Update, NewsOfADisturbanceKeepsTheSnapshotAndTheWorstCounts) {
  const auto snapshot = std::make_shared<const model::Snapshot>();
  Update update{.snapshot = snapshot};
  update.merge({.disturbance = backend::Disturbance::Sure});
  update.merge({.disturbance = backend::Disturbance::Maybe});
  EXPECT_EQ(update.snapshot, snapshot);
  EXPECT_EQ(update.disturbance, backend::Disturbance::Sure);
}

}  // namespace
}  // namespace proxyd
