#include "source/trigger_time.h"

#include <gtest/gtest.h>

namespace source {
namespace {

using namespace std::chrono_literals;

TEST(TriggerTime, IsReadToTheNanosecond) {
  EXPECT_EQ(parse_trigger_time("2026-11-15T20:43:16.939599673Z").time_since_epoch(),
            1794775396939599673ns);
  EXPECT_EQ(parse_trigger_time("2026-11-15T21:43:16.5+01:00").time_since_epoch(),
            1794775396500000000ns);
  EXPECT_EQ(parse_trigger_time("2026-11-15T20:43:16Z").time_since_epoch(), 1794775396s);
}

TEST(TriggerTime, IsNotSaidWhereItMakesNoSense) {
  for (const char* text : {"", "yesterday", "2026-11-15", "9999-12-31T23:59:59Z",
                           "0001-01-01T00:00:00Z", "2026-11-15T20:43:16.939599673Z "}) {
    EXPECT_EQ(parse_trigger_time(text), TriggerTime()) << text;
  }
}

}  // namespace
}  // namespace source
