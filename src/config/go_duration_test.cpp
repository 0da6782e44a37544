#include "config/go_duration.h"

#include <gtest/gtest.h>

namespace config {
namespace {

using namespace std::chrono_literals;

void expect_parsed(std::string_view text, std::chrono::nanoseconds wanted) {
  const auto parsed = parse_go_duration(text);
  ASSERT_TRUE(parsed) << text << ": " << parsed.error().text;
  EXPECT_EQ(*parsed, wanted) << text;
}

void expect_error(std::string_view text, std::string_view wanted) {
  const auto parsed = parse_go_duration(text);
  ASSERT_FALSE(parsed) << text;
  EXPECT_EQ(parsed.error().text, wanted);
}

TEST(GoDuration, ReadsNumbersWithUnits) {
  expect_parsed("0", 0s);
  expect_parsed("-0", 0s);
  expect_parsed("5s", 5s);
  expect_parsed("+5s", 5s);
  expect_parsed("-5s", -5s);
  expect_parsed("1h30m", 90min);
  expect_parsed("1.5s", 1500ms);
  expect_parsed(".5s", 500ms);
  expect_parsed("5.s", 5s);
  expect_parsed("10ns", 10ns);
  expect_parsed("11us", 11us);
  expect_parsed("12µs", 12us);
  expect_parsed("12μs", 12us);
  expect_parsed("13ms", 13ms);
  expect_parsed("3h4m5.006s", 3h + 4min + 5006ms);
  expect_parsed("9223372036854775807ns", std::chrono::nanoseconds::max());
  expect_parsed("-9223372036854775808ns", std::chrono::nanoseconds::min());
  expect_parsed("0.3333333333333333333h", 20min);
  expect_parsed("0.9223372036854775807h", 55min + 20s + 413933267ns);
}

TEST(GoDuration, TellsWhatIsWrongAsGoDoes) {
  expect_error("", "time: invalid duration \"\"");
  expect_error("foo", "time: invalid duration \"foo\"");
  expect_error("-", "time: invalid duration \"-\"");
  expect_error(".s", "time: invalid duration \".s\"");
  expect_error("3", "time: missing unit in duration \"3\"");
  expect_error("1h3", "time: missing unit in duration \"1h3\"");
  expect_error("5x", R"(time: unknown unit "x" in duration "5x")");
  expect_error("5 s", R"(time: unknown unit " s" in duration "5 s")");
  expect_error("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\"");
  expect_error("3000000h", "time: invalid duration \"3000000h\"");
  expect_error("2562047h48m", "time: invalid duration \"2562047h48m\"");
}

TEST(GoDuration, WritesWhatItReads) {
  for (const auto* text : {"15m0s", "24h0m0s", "1s", "0s", "1.5s", "250µs", "-2m0.5s"}) {
    EXPECT_EQ(format_go_duration(parse_go_duration(text).value()), text);
  }
}

}  // namespace
}  // namespace config
