#include "backend/userspace/ports.h"

#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace userspace {
namespace {

using base::ErrorCode;
using base::Result;

PortPool pool(uint16_t first, uint16_t last, uint32_t seed = 1) {
  return PortPool({first, last}, std::mt19937(seed));
}
Result<uint16_t> anything(uint16_t port) { return port; }
Result<uint16_t> kernel_choice(uint16_t port) { return port == 0 ? uint16_t{51234} : port; }
Result<uint16_t> nothing_free(uint16_t) { return base::fail(ErrorCode::Exists, "in use"); }

TEST(PortPool, EveryPortOfTheRangeIsGivenOnce) {
  auto ports = pool(40000, 40099);
  std::set<uint16_t> given;
  for (int i = 0; i < 100; ++i)
    given.insert(ports.take(0, anything).value_or(0));
  EXPECT_EQ(given.size(), 100U);
  EXPECT_EQ(*given.begin(), 40000);
  EXPECT_EQ(*given.rbegin(), 40099);
}

TEST(PortPool, AnExhaustedRangeSaysSo) {
  auto ports = pool(40000, 40000);
  ASSERT_TRUE(ports.take(0, anything));
  const auto none = ports.take(0, anything);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().text,
            "port allocation failed; there are no remaining ports left to allocate in the accepted "
            "range");
  ports.give_back(40000);
  EXPECT_EQ(ports.take(0, anything).value_or(0), 40000);
}

TEST(PortPool, APortOfSomebodyElseIsPassedOver) {
  auto ports = pool(40000, 40009);
  const auto last_only = [](uint16_t port) -> Result<uint16_t> {
    if (port != 40009) return base::fail(ErrorCode::Exists, "in use");
    return port;
  };
  EXPECT_EQ(ports.take(40003, last_only).value_or(0), 40009);
  EXPECT_FALSE(ports.take(0, nothing_free));
}

TEST(PortPool, OtherErrorsEndTheSearch) {
  auto ports = pool(40000, 40009);
  int tries = 0;
  const auto done = ports.take(0, [&](uint16_t) -> Result<uint16_t> {
    ++tries;
    return base::fail(ErrorCode::System, "no such address");
  });
  EXPECT_FALSE(done);
  EXPECT_EQ(tries, 1);
}

TEST(PortPool, ThePreferredPortComesFirst) {
  auto ports = pool(0, 0);
  EXPECT_EQ(ports.take(40000, kernel_choice).value_or(0), 40000);
  EXPECT_EQ(ports.take(40000, kernel_choice).value_or(0), 51234);
}

TEST(PortPool, APreferredPortOutsideOfTheRangeIsNotTaken) {
  auto ports = pool(40000, 40000);
  EXPECT_EQ(ports.take(50000, anything).value_or(0), 40000);
}

TEST(PortPool, ReservedPortsAreForThoseWhoPreferThem) {
  auto ports = pool(40000, 40001);
  ports.reserve({40000});
  EXPECT_EQ(ports.take(0, anything).value_or(0), 40001);
  EXPECT_FALSE(ports.take(0, anything));
  EXPECT_EQ(ports.take(40000, anything).value_or(0), 40000);
}

RC_GTEST_PROP(PortPool, PortsInUseAreDistinctAndInTheRange,
              (uint32_t seed, std::vector<uint8_t> deeds)) {
  auto ports = pool(1000, 1020, seed);
  std::set<uint16_t> used;
  for (const uint8_t deed : deeds) {
    if (deed % 3 == 0 && !used.empty()) {
      ports.give_back(*used.begin());
      used.erase(used.begin());
    } else if (const auto port = ports.take(0, anything)) {
      RC_ASSERT(*port >= 1000 && *port <= 1020);
      RC_ASSERT(used.insert(*port).second);
    } else {
      RC_ASSERT(used.size() == 21U);
    }
  }
}

}  // namespace
}  // namespace userspace
