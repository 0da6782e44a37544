#include "backend/ipvs/drain.h"

#include <gmock/gmock.h>

#include "support/builders.h"

namespace ipvs {
namespace {

using build::ip;
using testing::ElementsAre;
using testing::IsEmpty;

const kernel::ServerKey kWeb{ip("10.96.0.1"), 80, net::Protocol::Tcp};
const kernel::RealServer kOne{ip("10.244.0.1"), 8080};
const kernel::RealServer kTwo{ip("10.244.0.2"), 8080};
const Drain::Time kNow{std::chrono::hours(1)};

TEST(Drain, ThereIsNothingToDoWhileNobodyLeaves) {
  Drain drain;
  EXPECT_EQ(drain.next(), Drain::Time::max());
}

TEST(Drain, LooksAMinuteAfterTheFirstLeaves) {
  Drain drain;
  drain.add(kWeb, kOne, kNow);
  drain.add(kWeb, kTwo, kNow + std::chrono::seconds(30));
  EXPECT_EQ(drain.next(), kNow + Drain::kPeriod);
  EXPECT_THAT(drain.begin_look(kNow + Drain::kPeriod), ElementsAre(kWeb));
  EXPECT_EQ(drain.next(), kNow + 2 * Drain::kPeriod);
}

TEST(Drain, WhoHasNoConnectionMayGo) {
  Drain drain;
  drain.add(kWeb, kOne, kNow);
  drain.add(kWeb, kTwo, kNow);
  EXPECT_THAT(drain.settle(kWeb, {{kOne, 0, 0}, {kTwo, 0, 1}}), ElementsAre(kOne));
  EXPECT_FALSE(drain.contains(kWeb, kOne));
  EXPECT_TRUE(drain.contains(kWeb, kTwo));
}

TEST(Drain, WhatTheKernelHasNoMoreIsForgotten) {
  Drain drain;
  drain.add(kWeb, kOne, kNow);
  EXPECT_THAT(drain.settle(kWeb, {{kTwo, 0, 0}}), IsEmpty());
  EXPECT_EQ(drain.size(), 0U);
}

TEST(Drain, WhoComesBackIsTakenOut) {
  Drain drain;
  drain.add(kWeb, kOne, kNow);
  EXPECT_TRUE(drain.take(kWeb, kOne));
  EXPECT_FALSE(drain.take(kWeb, kOne));
  EXPECT_EQ(drain.next(), Drain::Time::max());
}

TEST(Drain, OthersThanTcpAreNotWaitedFor) {
  EXPECT_TRUE(is_drained(net::Protocol::Tcp));
  EXPECT_FALSE(is_drained(net::Protocol::Udp));
  EXPECT_FALSE(is_drained(net::Protocol::Sctp));
}

}  // namespace
}  // namespace ipvs
