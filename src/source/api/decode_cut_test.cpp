#include "source/api/decode_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace source::api {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr size_t kOpen = std::string_view::npos;

size_t end_of(std::string_view text) { return ValueEnd().scan(text); }

TEST(ValueEnd, IsBehindTheClosingBracket) {
  EXPECT_EQ(end_of("{} {}"), 2u);
  EXPECT_EQ(end_of(R"({"a":{"b":[1,{}]}}x)"), 18u);
  EXPECT_EQ(end_of("[[],[]],"), 7u);
  EXPECT_EQ(end_of(R"("x" )"), 3u);
  EXPECT_EQ(end_of("{\"a\":"), kOpen);
}

TEST(ValueEnd, BracketsInStringsDoNotCount) {
  EXPECT_EQ(end_of(R"({"}":"}"} )"), 9u);
  EXPECT_EQ(end_of(R"({"\"}":"\\"} )"), 12u);
  EXPECT_EQ(end_of(R"("\\" )"), 4u);
  EXPECT_EQ(end_of(R"("\")"), kOpen);
}

TEST(ValueEnd, IsTheSameHoweverTheBytesAreCut) {
  const std::string_view text = R"({"a\"}":["\\",{}]})";
  for (size_t cut = 1; cut < text.size(); ++cut) {
    ValueEnd end;
    EXPECT_EQ(end.scan(text.substr(0, cut)), kOpen);
    EXPECT_TRUE(end.inside());
    EXPECT_EQ(end.scan(text.substr(cut)), text.size() - cut);
    EXPECT_FALSE(end.inside());
  }
}

std::vector<std::pair<std::string, std::string>> members(std::string_view text,
                                                         std::string& error) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto end = each_member(text, [&](auto name, auto value) -> base::Result<> {
    out.emplace_back(name, value);
    return {};
  });
  error = end ? "" : end.error().text;
  return out;
}

TEST(EachMember, GivesNamesAndValuesAsText) {
  std::string error;
  EXPECT_THAT(members(R"( {"a" : 1 ,"b":{"c":[]}, "d":"x,}", "e":null})", error),
              ElementsAre(Pair(R"("a")", "1"), Pair(R"("b")", R"({"c":[]})"),
                          Pair(R"("d")", R"("x,}")"), Pair(R"("e")", "null")));
  EXPECT_EQ(error, "");
  EXPECT_THAT(members("{}", error), ElementsAre());
  EXPECT_EQ(error, "");
}

TEST(EachMember, SaysWhatIsMissing) {
  std::string error;
  const auto error_of = [&](std::string_view text) {
    members(text, error);
    return error;
  };
  EXPECT_EQ(error_of("[]"), "broken JSON: expected an object");
  EXPECT_EQ(error_of(R"({"a":1)"), "broken JSON: expected ',' or '}'");
  EXPECT_EQ(error_of(R"({"a":)"), "broken JSON: expected a value");
  EXPECT_EQ(error_of(R"({"a" 1})"), "broken JSON: expected ':'");
  EXPECT_EQ(error_of(R"({a:1})"), "broken JSON: expected a name");
  EXPECT_EQ(error_of(R"({"a":1,})"), "broken JSON: expected a name");
  EXPECT_EQ(error_of(R"({"a":"x)"), "broken JSON: expected a value");
  EXPECT_EQ(error_of("{}{}"), "broken JSON: expected nothing behind the object");
}

TEST(EachElement, GivesElementsAsText) {
  std::vector<std::string> out;
  const auto take = [&](std::string_view value) -> base::Result<> {
    out.emplace_back(value);
    return {};
  };
  EXPECT_TRUE(each_element(R"([ {"a":"]"} , 2,[3] ])", take));
  EXPECT_THAT(out, ElementsAre(R"({"a":"]"})", "2", "[3]"));
  EXPECT_FALSE(each_element("[1", take));
  EXPECT_FALSE(each_element("[1,]", take));
  EXPECT_FALSE(each_element("null", take));
}

}  // namespace
}  // namespace source::api
