#include "base/rfc3339.h"

#include <gtest/gtest.h>

namespace base {
namespace {

using namespace std::chrono_literals;

TEST(Rfc3339, IsReadWithOffsets) {
  const auto noon = parse_rfc3339("2026-03-01T12:00:00Z");
  ASSERT_TRUE(noon);
  EXPECT_EQ(noon->seconds.time_since_epoch(), 1772366400s);
  EXPECT_EQ(noon->fraction, 0ns);
  EXPECT_EQ(parse_rfc3339("2026-03-01T13:30:00+01:30")->seconds, noon->seconds);
  EXPECT_EQ(parse_rfc3339("2026-02-28T22:00:00-14:00")->seconds, noon->seconds);
  EXPECT_TRUE(parse_rfc3339("9999-12-31T23:59:59Z"));
}

TEST(Rfc3339, FractionsAreReadToTheNanosecond) {
  const auto fraction = [](const char* text) { return parse_rfc3339(text).value().fraction; };
  EXPECT_EQ(fraction("2026-03-01T12:00:00.5Z"), 500ms);
  EXPECT_EQ(fraction("2026-03-01T12:00:00.000001+02:00"), 1us);
  EXPECT_EQ(fraction("2026-03-01T12:00:00.939599673Z"), 939599673ns);
  EXPECT_EQ(fraction("2026-03-01T12:00:00.9395996739999999999999Z"), 939599673ns);
}

TEST(Rfc3339, IsNothingElse) {
  for (const char* text : {"", "tomorrow", "2026-03-01", "2026-03-01T12:00:00",
                           "2026-03-01 12:00:00Z", "2026-13-01T12:00:00Z", "2026-02-30T12:00:00Z",
                           "2026-03-01T24:00:00Z", "2026-03-01T12:60:00Z", "2026-03-01T12:00:00Zx",
                           "2026-03-01T12:00:00.Z", "2026-03-01T12:00:00.5", "-026-03-01T12:00:00Z",
                           "2026-03-01T12:00:00+1:00", "2026-03-01T12:00:0"}) {
    EXPECT_FALSE(parse_rfc3339(text)) << text;
  }
}

}  // namespace
}  // namespace base
