#include "codec/yaml_write.h"

#include <gtest/gtest.h>

#include "codec/json.h"

namespace codec::yaml {
namespace {

std::string written(std::string_view text) {
  std::string out;
  append(out, json::parse(text).value());
  return out;
}

TEST(YamlWrite, KeysAreSortedAndListsStandBelowTheirKey) {
  EXPECT_EQ(written(R"({"b":1,"a":{"d":true,"c":null},"list":["x","z"],"empty":[]})"),
            "a:\n  c: null\n  d: true\nb: 1\nempty: []\nlist:\n- x\n- z\n");
}

TEST(YamlWrite, TextsAreQuotedWhereTheyWouldBeReadAsSomethingElse) {
  EXPECT_EQ(written(R"({"a":"true","b":"1.36","c":"[]","d":"","e":"1m0s","f":"a: b"})"),
            "a: \"true\"\nb: \"1.36\"\nc: '[]'\nd: \"\"\ne: 1m0s\nf: 'a: b'\n");
  EXPECT_EQ(written(R"({"t":"2026-11-16T06:05:25Z"})"), "t: \"2026-11-16T06:05:25Z\"\n");
}

}  // namespace
}  // namespace codec::yaml
