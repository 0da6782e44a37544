#include "kube/request_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kube {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(RequestHeaders, NameWhomWeStandFor) {
  EXPECT_THAT(impersonation_headers({}), IsEmpty());
  EXPECT_THAT(
      impersonation_headers({.user = "you",
                             .uid = "5",
                             .groups = {"a", "b"},
                             .extra = {{"Scopes", {"x", "y"}}, {"none", {}}}}),
      ElementsAre(Pair("Impersonate-User", "you"), Pair("Impersonate-Uid", "5"),
                  Pair("Impersonate-Group", "a"), Pair("Impersonate-Group", "b"),
                  Pair("Impersonate-Extra-Scopes", "x"), Pair("Impersonate-Extra-Scopes", "y")));
}

TEST(RequestHeaders, EscapeWhatTheNameOfAHeaderCannotHave) {
  const auto name = [](const std::string& key) {
    return impersonation_headers({.user = "u", .extra = {{key, {"v"}}}}).at(1).first;
  };
  EXPECT_EQ(name("example.org/a:b"), "Impersonate-Extra-example.org%2Fa%3Ab");
  EXPECT_EQ(name("100% \xc3\xa9\r\n"), "Impersonate-Extra-100%25%20%C3%A9%0D%0A");
  EXPECT_EQ(name("!#$&'*+-.^_`|~"), "Impersonate-Extra-!#$&'*+-.^_`|~");
}

TEST(RequestHeaders, WithALineBreakInAValueAreRefusedWithoutRepeatingIt) {
  EXPECT_TRUE(check_values({{"Authorization", "Bearer a\tb \xc3\xa9"}}));
  for (const char* value : {"Bearer sekret\r\nHost: x", "sekret\n", "sekret\x7f", "\x01sekret"}) {
    const auto checked = check_values({{"Authorization", value}});
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().text, "net/http: invalid header field value for \"Authorization\"");
  }
}

}  // namespace
}  // namespace kube
