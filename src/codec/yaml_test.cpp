#include "codec/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/json.h"

namespace codec::yaml {
namespace {

std::string as_json(std::string_view text) {
  const auto value = parse(text);
  if (!value) return "error: " + value.error().text;
  std::string out;
  json::append(out, *value);
  return out;
}

// All documents of a stream, one a line, then the error if there is one.
std::string stream(std::string_view text, const Limits& limits = {}) {
  std::string out;
  const auto end = parse_stream(
      text,
      [&](Value value) -> base::Result<> {
        json::append(out, value);
        out += '\n';
        return {};
      },
      limits);
  return end ? out : out + "error: " + end.error().text;
}

TEST(Yaml, ReadsBlockAndFlowStyle) {
  EXPECT_EQ(as_json("a:\n- 1\n- b: two\n  c: [x, 'y']\n"),
            R"({"a":[1,{"b":"two","c":["x","y"]}]})");
  EXPECT_EQ(as_json("{a: 1, \"b\": null}"), R"({"a":1,"b":null})");
  EXPECT_EQ(as_json("a: |\n  one\n  two\nb: >-\n  one\n  two\n"),
            R"({"a":"one\ntwo\n","b":"one two"})");
}

TEST(Yaml, TypesPlainScalarsAsKubernetesDoes) {
  EXPECT_EQ(as_json("[~, null, Null, NULL, '', nUll]"), R"([null,null,null,null,"","nUll"])");
  EXPECT_EQ(as_json("a:"), R"({"a":null})");
  EXPECT_EQ(as_json("[true, Yes, on, y, ON, tRue]"), R"([true,true,true,true,true,"tRue"])");
  EXPECT_EQ(as_json("[false, No, off, n, Off]"), "[false,false,false,false,false]");
  EXPECT_EQ(as_json("[0, -5, +5, 0x1F, 0o17, 017, 0b101, -0b11, 1_000]"),
            "[0,-5,5,31,15,15,5,-3,1000]");
  EXPECT_EQ(as_json("[1.5, -.5, 1e3, 1., 089, .5]"), "[1.5,-0.5,1000,1,89,0.5]");
  EXPECT_EQ(
      as_json("[1.2.3.4, 10.0.0.0/8, 2001-12-14, 0x, e5, +, infinity, 1e, -x, fd00::1]"),
      R"(["1.2.3.4","10.0.0.0/8","2001-12-14","0x","e5","+","infinity","1e","-x","fd00::1"])");
}

TEST(Yaml, NumbersAtTheEdges) {
  EXPECT_NE(parse("9223372036854775807")->as_int(), nullptr);
  EXPECT_NE(parse("-9223372036854775808")->as_int(), nullptr);
  EXPECT_NE(parse("9223372036854775808")->as_double(), nullptr);
  EXPECT_NE(parse("-9223372036854775809")->as_double(), nullptr);
  EXPECT_NE(parse("99999999999999999999999")->as_double(), nullptr);
  EXPECT_NE(parse(".inf")->as_double(), nullptr);
  EXPECT_NE(parse("-.INF")->as_double(), nullptr);
  EXPECT_NE(parse(".NaN")->as_double(), nullptr);
}

TEST(Yaml, QuotedScalarsAreStrings) {
  EXPECT_EQ(as_json("['1', \"true\", 'null', \"\\u20ac\"]"),
            "[\"1\",\"true\",\"null\",\"\u20ac\"]");
}

TEST(Yaml, ExplicitTagsDecideTheType) {
  EXPECT_EQ(as_json("[!!str 1, !!int '0x10', !!float 1, !!bool yes, !!null '', ! 1, !mine 5]"),
            R"(["1",16,1,true,null,"1","5"])");
  EXPECT_EQ(as_json("a: !!int x"),
            "error: line 1, column 4: cannot decode \"x\" as tag:yaml.org,2002:int");
}

TEST(Yaml, KeysAreTexts) {
  EXPECT_EQ(as_json("{1: a, 0x10: b, on: c, 1.5: d, '1': e}"),
            R"({"1":"a","16":"b","true":"c","1.5":"d","1":"e"})");
  EXPECT_EQ(as_json("? [a]\n: b"), "error: line 1, column 3: a key must be a scalar");
  EXPECT_EQ(as_json("~: b"),
            "error: line 1, column 1: a key must be a text, a boolean or a number");
}

TEST(Yaml, ExpandsAliases) {
  EXPECT_EQ(as_json("a: &x {k: [1]}\nb: *x\nc: [*x, &y z, *y]\n"),
            R"({"a":{"k":[1]},"b":{"k":[1]},"c":[{"k":[1]},"z","z"]})");
  EXPECT_EQ(as_json("a: *x"), "error: line 1, column 4: unknown anchor \"x\" referenced");
  EXPECT_EQ(as_json("a: &x [*x]"), "error: line 1, column 8: anchor \"x\" contains itself");
  EXPECT_EQ(as_json("&k a: 1\nb: *k"), R"({"a":1,"b":"a"})");
}

TEST(Yaml, AnAliasBombIsAnError) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + "," + before +
            "," + before + "]\n";
  }
  EXPECT_THAT(as_json(bomb), testing::HasSubstr("the document is too large, aliases included"));
}

TEST(Yaml, LongTextsInAliasesAreChargedByTheirLength) {
  std::string bomb = "a: &a " + std::string(1 << 20, 'x') + "\nb: [";
  for (int i = 0; i < 10'000; ++i)
    bomb += "*a,";
  EXPECT_THAT(as_json(bomb + "]"), testing::HasSubstr("too large, aliases included"));
}

TEST(Yaml, DepthIsLimitedAlsoThroughAliases) {
  const auto nested = [](size_t levels, const std::string& core) {
    return std::string(levels, '[') + core + std::string(levels, ']');
  };
  EXPECT_TRUE(parse(nested(199, "1")));
  EXPECT_THAT(as_json(nested(201, "")), testing::HasSubstr("nested too deep"));
  const std::string text = "- &a " + nested(150, "") + "\n- ";
  EXPECT_TRUE(parse(text + nested(40, "*a")));
  EXPECT_THAT(as_json(text + nested(60, "*a")), testing::HasSubstr("nested too deep"));
  EXPECT_FALSE(parse(std::string(1'000'000, '[')));
}

TEST(Yaml, MergeKeysFillWhatTheMapDoesNotSay) {
  EXPECT_EQ(as_json("base: &b {a: 1, b: 2}\nmore: &m {b: 3, c: 4}\n"
                    "one: {a: 9, <<: *b}\nall: {<<: [*b, *m], d: 0}"),
            R"({"base":{"a":1,"b":2},"more":{"b":3,"c":4},"one":{"a":9,"b":2},)"
            R"("all":{"d":0,"a":1,"b":2,"c":4}})");
  EXPECT_EQ(as_json("{'<<': 1}"), R"({"<<":1})");
  EXPECT_THAT(as_json("{<<: 1}"), testing::HasSubstr("a merge key needs a map"));
}

TEST(Yaml, KeepsRepeatedKeysAndListsThem) {
  const auto value = parse("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n");
  ASSERT_TRUE(value);
  EXPECT_EQ(*value->find("a")->as_int(), 3);
  EXPECT_THAT(duplicate_keys(*value), testing::ElementsAre("line 4: key \"c\" already set in map",
                                                           "line 5: key \"a\" already set in map"));
}

TEST(Yaml, ListsRepeatedKeysOfALargeMap) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(duplicate_keys(*parse(text + "k5: 2\n")),
              testing::ElementsAre("line 1001: key \"k5\" already set in map"));
}

TEST(Yaml, VisitsEachDocumentAndLeavesOutEmptyOnes) {
  EXPECT_EQ(stream("# nothing\n---\na: 1\n---\n---\n# c\n---\nb: 2\n...\n"),
            "{\"a\":1}\n{\"b\":2}\n");
  EXPECT_EQ(stream(""), "");
  EXPECT_EQ(stream("# only a comment\n"), "");
  EXPECT_EQ(stream("a: 1\n---\nb: [\n"),
            "{\"a\":1}\nerror: line 4, column 1: did not find expected node content "
            "while parsing a flow node");
}

TEST(Yaml, AnchorsDoNotReachIntoTheNextDocument) {
  EXPECT_EQ(stream("a: &x 1\n---\nb: *x\n"),
            "{\"a\":1}\nerror: line 3, column 4: unknown anchor \"x\" referenced");
}

TEST(Yaml, TheVisitorsErrorEndsTheStream) {
  int visits = 0;
  const auto end = parse_stream("a\n---\nb\n", [&](Value) -> base::Result<> {
    ++visits;
    return base::fail(base::ErrorCode::Invalid, "enough");
  });
  EXPECT_EQ(visits, 1);
  EXPECT_EQ(end.error().text, "enough");
}

TEST(Yaml, ParseWantsOneDocument) {
  EXPECT_TRUE(parse("")->is_null());
  EXPECT_EQ(parse("a: 1\n---\nb: 2\n").error().text,
            "line 3, column 1: a second document where only one is expected");
}

TEST(Yaml, ErrorsSayLineAndColumn) {
  EXPECT_EQ(as_json("a: 1\n\tb: 2\n"),
            "error: line 2, column 1: found a tab character that violates indentation "
            "while scanning a plain scalar");
  EXPECT_THAT(as_json("a: 1\nb: \xff\n"), testing::StartsWith("error: line 2, column 4: "));
  EXPECT_THAT(as_json(std::string_view("a\0b", 3)),
              testing::StartsWith("error: line 1, column 2: "));
}

TEST(Yaml, ValuesRememberWhereTheyStood) {
  const auto value = parse("# c\r\na:\r\n  - b: x\r\n");
  const Member& a = value->as_object()->front();
  EXPECT_EQ(a.at.line, 2u);
  const Value* x = a.value.as_array()->front().find("b");
  EXPECT_EQ(x->at.line, 3u);
  EXPECT_EQ(x->at.column, 8u);
  EXPECT_EQ(*x->as_string(), "x");
}

TEST(Yaml, SizeOfTheTreeIsLimited) {
  EXPECT_EQ(stream("[1, 2, 3]", {.nodes = 4}), "[1,2,3]\n");
  EXPECT_THAT(stream("[1, 2, 3, 4]", {.nodes = 4}), testing::HasSubstr("too large"));
  EXPECT_EQ(stream("[1, 2, 3]\n---\n[1, 2, 3]", {.nodes = 4}), "[1,2,3]\n[1,2,3]\n");
}

}  // namespace
}  // namespace codec::yaml
