#include "serve/debug_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "log/log.h"

namespace serve {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

http::Answer ask(const std::string& path, const std::string& method = "GET",
                 const std::string& body = "") {
  return answer(debug_routes(), {.method = method, .path = path, .body = body});
}

class VerbosityTest : public testing::Test {
 protected:
  ~VerbosityTest() override { klog::set_verbosity(0); }
};

TEST_F(VerbosityTest, IsChangedByPut) {
  const auto done = ask("/debug/flags/v", "PUT", "4");
  EXPECT_EQ(done.status, 200);
  EXPECT_EQ(done.body, "successfully set klog.logging.verbosity to 4\n");
  EXPECT_THAT(done.headers, Contains(Pair("Content-Type", "text/plain")));
  EXPECT_TRUE(klog::enabled(4));
  EXPECT_FALSE(klog::enabled(5));
}

TEST_F(VerbosityTest, IsANumber) {
  const auto problem = [](const std::string& body) {
    const auto refused = ask("/debug/flags/v", "PUT", body);
    EXPECT_EQ(refused.status, 400);
    return refused.body;
  };
  const std::string front = "strconv.ParseUint: parsing ";
  EXPECT_EQ(problem("x"), front + "\"x\": invalid syntax\n");
  EXPECT_EQ(problem(""), front + "\"\": invalid syntax\n");
  EXPECT_EQ(problem("-3"), front + "\"-3\": invalid syntax\n");
  EXPECT_EQ(problem("3\n"), front + "\"3\\n\": invalid syntax\n");
  EXPECT_EQ(problem("99999999999"), front + "\"99999999999\": value out of range\n");
  EXPECT_EQ(problem("2147483648"),
            "failed set klog.logging.verbosity 2147483648: strconv.ParseInt: parsing "
            "\"2147483648\": value out of range\n");
  EXPECT_FALSE(klog::enabled(1));
}

TEST_F(VerbosityTest, IsChangedByNothingElse) {
  for (const auto* method : {"GET", "POST", "DELETE"}) {
    const auto refused = ask("/debug/flags/v", method, "4");
    EXPECT_EQ(refused.status, 406);
    EXPECT_EQ(refused.body, "unsupported http method\n");
  }
  EXPECT_FALSE(klog::enabled(1));
}

TEST(DebugPages, FlagsAreNamedOnEveryOtherPageBelow) {
  for (const auto* path : {"/debug/flags", "/debug/flags/", "/debug/flags/x"}) {
    EXPECT_THAT(ask(path).body, HasSubstr("<tr>v<br>"));
    EXPECT_THAT(ask(path).headers, Contains(Pair("Content-Type", "text/html; charset=utf-8")));
  }
  EXPECT_EQ(ask("/debug/flagsx").status, 404);
}

TEST(DebugPages, TheFolderOfProfilesSaysWhatThereIs) {
  const auto moved = ask("/debug/pprof");
  EXPECT_EQ(moved.status, 302);
  EXPECT_THAT(moved.headers, Contains(Pair("Location", "/debug/pprof/")));
  EXPECT_THAT(ask("/debug/pprof/").body, AllOf(HasSubstr("href='heap'"), HasSubstr("perf record")));
}

TEST(DebugPages, TheHeapIsThatOfMalloc) {
  EXPECT_THAT(ask("/debug/pprof/heap").body, AllOf(StartsWith("in use: "), HasSubstr("<malloc ")));
}

TEST(DebugPages, ThreadsAreListed) {
  EXPECT_THAT(ask("/debug/pprof/threads").body,
              AllOf(StartsWith("thread state name wchan\n"), HasSubstr(" serve_test ")));
}

TEST(DebugPages, GosProfilesDoNotExist) {
  EXPECT_EQ(ask("/debug/pprof/profile").status, 501);
  EXPECT_EQ(ask("/debug/pprof/trace").status, 501);
  for (const auto* name : {"cmdline", "goroutine", "nope", "heap/x"}) {
    EXPECT_EQ(ask(std::string("/debug/pprof/") + name).status, 404);
    EXPECT_EQ(ask(std::string("/debug/pprof/") + name).body, "Unknown profile\n");
  }
}

}  // namespace
}  // namespace serve
