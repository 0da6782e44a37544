#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/result.h"

namespace base {
namespace {

using testing::ElementsAre;

TEST(Text, SplitKeepsEmptyPieces) {
  EXPECT_THAT(split("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Text, JoinPutsTheSeparatorBetween) {
  EXPECT_EQ(join({"a", "", "b"}, ", "), "a, , b");
  EXPECT_EQ(join({}, ", "), "");
}

TEST(Text, TrimTakesWhiteSpaceFromBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

TEST(Text, ParseNumberWantsNothingButTheNumber) {
  EXPECT_EQ(parse_number<int>("42"), 42);
  EXPECT_EQ(parse_number<int>("-1"), -1);
  EXPECT_FALSE(parse_number<int>("42 "));
  EXPECT_FALSE(parse_number<int>(""));
  EXPECT_FALSE(parse_number<uint8_t>("256"));
}

TEST(Text, QuoteEscapesAsGoDoes) { EXPECT_EQ(quote("a\"b\\c\n\t\x01"), R"("a\"b\\c\n\t\x01")"); }

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorCode::Invalid, "odd");
  return value / 2;
}
Result<int> quarter(int value) {
  const int first = TRY_CONTEXT(half(value), "first half");
  return half(first);
}

TEST(Result, TryPassesTheErrorUpWithItsContext) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(7).error().text, "first half: odd");
  EXPECT_EQ(quarter(6).error().text, "odd");
}

}  // namespace
}  // namespace base
