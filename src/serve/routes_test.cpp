#include "serve/routes.h"

#include <gtest/gtest.h>

namespace serve {
namespace {

Route row(const std::string& path, Match match = Match::Exact) {
  return {path, [path](const http::Incoming&) { return http::text_answer(200, path); }, match};
}

std::string asked(const Routes& routes, const std::string& path) {
  const auto shown = answer(routes, {.method = "GET", .path = path});
  return shown.status == 200 ? shown.body : std::to_string(shown.status);
}

TEST(Routes, AnExactRowAnswersForItsPathAlone) {
  const Routes routes{row("/a")};
  EXPECT_EQ(asked(routes, "/a"), "/a");
  EXPECT_EQ(asked(routes, "/a/"), "404");
  EXPECT_EQ(asked(routes, "/ab"), "404");
}

TEST(Routes, APrefixAnswersForAllBelowItUnlessARowBeforeDoes) {
  const Routes routes{row("/a/b"), row("/a/", Match::Prefix)};
  EXPECT_EQ(asked(routes, "/a/"), "/a/");
  EXPECT_EQ(asked(routes, "/a/c/d"), "/a/");
  EXPECT_EQ(asked(routes, "/a/b"), "/a/b");
  EXPECT_EQ(asked(routes, "/a"), "404");
}

}  // namespace
}  // namespace serve
