#include "codec/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/json.h"

namespace codec {
namespace {

std::string stream(std::string_view text) {
  std::string out;
  const auto end = parse_stream(text, [&](Value value) -> base::Result<> {
    json::append(out, value);
    out += '\n';
    return {};
  });
  return end ? out : out + "error: " + end.error().text;
}

TEST(Document, ReadsYaml) {
  EXPECT_EQ(stream("a: 1\n---\nb: 2\n"), "{\"a\":1}\n{\"b\":2}\n");
  EXPECT_EQ(stream("\xef\xbb\xbf"
                   "a: 1\n"),
            "{\"a\":1}\n");
}

TEST(Document, ReadsJsonWithTabsAndSeveralDocuments) {
  EXPECT_EQ(stream("\n{\n\t\"a\":\t1\n}\n{\"b\":2}"), "{\"a\":1}\n{\"b\":2}\n");
}

TEST(Document, ReadsJsonBetweenYamlSeparators) {
  EXPECT_EQ(stream("{\n\t\"a\": 1\n}\n---\n{\"b\": 2}\n---\nc: 3\n"),
            "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n");
}

TEST(Document, ReadsYamlInFlowStyle) {
  EXPECT_EQ(stream("{a: b,}"), "{\"a\":\"b\"}\n");
  EXPECT_EQ(stream("{\"a\": b,}"), "{\"a\":\"b\"}\n");
  EXPECT_EQ(
      stream("{a: [}"),
      "error: line 1, column 6: did not find expected node content while parsing a flow node");
}

TEST(Document, BrokenJsonIsReportedAsJson) {
  EXPECT_EQ(stream("{\"a\": [1, 2}\n"),
            "error: line 1, column 12: unexpected \"}\", expected ',' or ']'");
  EXPECT_EQ(stream("{\"a\": 1}\n{\"b\": }\n"),
            "{\"a\":1}\nerror: line 2, column 7: unexpected \"}\", expected a value");
}

TEST(Document, EmptyTextsHaveNoDocument) {
  EXPECT_EQ(stream(""), "");
  EXPECT_EQ(stream(" \n\n"), "");
}

TEST(Document, RepeatedKeysCarryTheirPosition) {
  const auto value = json::parse("{\"a\":1,\n \"a\":2}");
  const auto keys = repeated_keys(*value);
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].name, "a");
  EXPECT_EQ(keys[0].at.line, 2u);
  EXPECT_EQ(keys[0].at.column, 2u);
}

}  // namespace
}  // namespace codec
