#include "codec/json.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace codec::json {
namespace {

std::string round_trip(std::string_view text) {
  const auto value = parse(text);
  if (!value) return "error: " + value.error().text;
  std::string out;
  append(out, *value);
  return out;
}

std::string error_of(std::string_view text) {
  const auto value = parse(text);
  return value ? "no error" : value.error().text;
}

std::string quoted(std::string_view text) {
  std::string out;
  append_string(out, text);
  return out;
}

TEST(Json, RoundTripsEveryKindOfValue) {
  EXPECT_EQ(round_trip(R"( {"a": [1, -2, 3.5, true, false, null, "x"], "b": {}, "c": []} )"),
            R"({"a":[1,-2,3.5,true,false,null,"x"],"b":{},"c":[]})");
  EXPECT_EQ(round_trip("\"text\""), "\"text\"");
  EXPECT_EQ(round_trip("0"), "0");
  EXPECT_EQ(round_trip("-0"), "0");
}

TEST(Json, WholeNumbersThatFitAreIntegersAllOthersDoubles) {
  EXPECT_NE(parse("9223372036854775807")->as_int(), nullptr);
  EXPECT_NE(parse("-9223372036854775808")->as_int(), nullptr);
  EXPECT_NE(parse("9223372036854775808")->as_double(), nullptr);
  EXPECT_NE(parse("1.0")->as_double(), nullptr);
  EXPECT_DOUBLE_EQ(*parse("1e3")->as_double(), 1000);
  EXPECT_DOUBLE_EQ(*parse("-2.5E-1")->as_double(), -0.25);
}

TEST(Json, RejectsWhatIsNoNumber) {
  for (const auto* text : {"01", "+1", "1.", ".5", "1e", "-", "1e999", "NaN", "0x10"}) {
    EXPECT_FALSE(parse(text)) << text;
  }
}

TEST(Json, ErrorsSayLineAndColumn) {
  EXPECT_EQ(error_of("{\n  \"a\": 1,\n\t\"b\" 2\n}"),
            "line 3, column 6: unexpected \"2\", expected ':'");
  EXPECT_EQ(error_of(""), "line 1, column 1: unexpected end of text, expected a value");
  EXPECT_EQ(error_of("[1,\r\n2"), "line 2, column 2: unexpected end of text, expected ',' or ']'");
  EXPECT_EQ(error_of("{} {}"), "line 1, column 4: unexpected text after the end of the document");
  EXPECT_EQ(error_of("{\"a\":1,}"),
            "line 1, column 8: unexpected \"}\", expected a name in double quotes");
  EXPECT_EQ(error_of("trie"), "line 1, column 1: unexpected \"t\", expected a value");
  EXPECT_EQ(error_of("\"a\nb\""), "line 1, column 3: control character inside a string");
}

TEST(Json, ValuesAndNamesRememberWhereTheyStood) {
  const auto value = parse("{\n\t\"a\": [\n  7]}");
  ASSERT_TRUE(value);
  const Member& member = value->as_object()->front();
  EXPECT_EQ(member.at.line, 2u);
  EXPECT_EQ(member.at.column, 2u);
  const Value& seven = member.value.as_array()->front();
  EXPECT_EQ(seven.at.line, 3u);
  EXPECT_EQ(seven.at.column, 3u);
}

TEST(Json, UnderstandsEscapesAndSurrogates) {
  EXPECT_EQ(*parse(R"("\"\\\/\b\f\n\r\t\u0041")")->as_string(), "\"\\/\b\f\n\r\tA");
  EXPECT_EQ(*parse(R"("\u00fc\u20ac\ud83d\ude00")")->as_string(), "\u00fc\u20ac\U0001f600");
  EXPECT_EQ(*parse(R"("\ud83d!")")->as_string(), "\ufffd!");
  EXPECT_EQ(*parse(R"("\ud83d\u0041")")->as_string(), "\ufffdA");
  EXPECT_EQ(*parse(R"("\ude00")")->as_string(), "\ufffd");
  EXPECT_FALSE(parse(R"("\x41")"));
  EXPECT_FALSE(parse(R"("\u12")"));
  EXPECT_FALSE(parse(R"("\u-123")"));
}

TEST(Json, BytesThatAreNotUtf8BecomeTheReplacementCharacter) {
  EXPECT_EQ(*parse("\"a\xff z\"")->as_string(), "a\ufffd z");
  EXPECT_EQ(*parse("\"\xe2\x82\"")->as_string(), "\ufffd\ufffd");
  EXPECT_EQ(quoted("ok \u20ac \xc0\xaf"), "\"ok \u20ac \ufffd\ufffd\"");
  EXPECT_EQ(quoted("\xed\xa0\x80"), "\"\ufffd\ufffd\ufffd\"");
}

TEST(Json, WritesEscapes) {
  EXPECT_EQ(quoted("a\"b\\c\n\r\t\b\f\x01\x1f\x7f"),
            "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f\x7f\"");
}

TEST(Json, WritesNullForNumbersThatJsonCannotSay) {
  std::string out;
  append(out, Value(std::nan("")));
  append(out, Value(std::numeric_limits<double>::infinity()));
  EXPECT_EQ(out, "nullnull");
}

TEST(Json, KeepsRepeatedKeysAndFindsTheLast) {
  const auto value = parse(R"({"a":1,"a":2})");
  EXPECT_EQ(value->as_object()->size(), 2u);
  EXPECT_EQ(*value->find("a")->as_int(), 2);
}

TEST(Json, NestingIsLimited) {
  const auto nested = [](size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_TRUE(parse(nested(200)));
  EXPECT_EQ(error_of(nested(201)), "line 1, column 201: nested too deep");
  EXPECT_FALSE(parse(std::string(10'000'000, '[')));
}

TEST(Json, SizeOfTheTreeIsLimited) {
  EXPECT_TRUE(parse("[1,2,3]", {.nodes = 4}));
  EXPECT_FALSE(parse("[1,2,3,4]", {.nodes = 4}));
}

TEST(Json, StreamsSeveralDocuments) {
  std::string seen;
  const auto visit = [&](Value value) -> base::Result<> {
    append(seen, value);
    return {};
  };
  EXPECT_TRUE(parse_stream("{\"a\":1}{\"b\":2}\n 3 ", visit));
  EXPECT_EQ(seen, "{\"a\":1}{\"b\":2}3");
  EXPECT_EQ(parse_stream("1\n}", visit).error().text,
            "line 2, column 1: unexpected \"}\", expected a value");
}

}  // namespace
}  // namespace codec::json
