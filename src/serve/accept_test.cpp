#include "serve/accept.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> types(std::string_view header) {
  std::vector<std::string> out;
  for (const auto& one : parse_accept(header))
    out.push_back(one.type);
  return out;
}

TEST(Accept, TheBestComesFirst) {
  EXPECT_THAT(types("text/html, */*;q=0.8"), ElementsAre("text/html", "*/*"));
  EXPECT_THAT(types("a/a;q=0.2,b/b;q=0.9,c/c,d/d"), ElementsAre("c/c", "d/d", "b/b", "a/a"));
  EXPECT_THAT(types("a/a;q=0, b/b;q=x"), ElementsAre("b/b"));
  EXPECT_THAT(types(""), IsEmpty());
  EXPECT_THAT(types(";;;,,"), IsEmpty());
}

TEST(Accept, ParametersAreKeptWithoutTheQuality) {
  const auto all = parse_accept("Application/JSON; V=v1beta1 ;g=\"config.k8s.io\";q=0.5;as=Flagz");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].type, "application/json");
  EXPECT_EQ(all[0].parameter("v"), "v1beta1");
  EXPECT_EQ(all[0].parameter("g"), "config.k8s.io");
  EXPECT_EQ(all[0].parameter("as"), "Flagz");
  EXPECT_EQ(all[0].parameter("q"), "");
  EXPECT_EQ(all[0].quality, 0.5);
}

TEST(Accept, ACodingIsTakenIfItIsNamedAndNotRefused) {
  EXPECT_TRUE(accepts("gzip", "gzip"));
  EXPECT_TRUE(accepts("deflate, GZIP;q=0.1", "gzip"));
  EXPECT_FALSE(accepts("gzip;q=0", "gzip"));
  EXPECT_FALSE(accepts("identity", "gzip"));
  EXPECT_FALSE(accepts("", "gzip"));
}

}  // namespace
}  // namespace serve
