#include "log/log.h"

#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "log/duration.h"

namespace klog {
namespace {

using namespace std::chrono_literals;

// 2021-11-15 23:19:17.123456 UTC
constexpr std::chrono::system_clock::time_point kMoment{1637018357123456us};

class LogTest : public testing::Test {
 protected:
  LogTest() {
    setenv("TZ", "UTC", 1);  // NOLINT(concurrency-mt-unsafe): before any thread starts
    tzset();
  }
  ~LogTest() override { configure({}); }
};

using LogText = LogTest;
using LogJson = LogTest;
using LogOutput = LogTest;

Line line(std::string_view message, Fields fields = {}) {
  return {.message = message,
          .fields = std::move(fields),
          .file = "/src/daemon/runner.cpp",
          .line = 42,
          .time = kMoment,
          .pid = 4711};
}

// What stands behind "file:line] ".
std::string text_tail(std::string_view message, Fields fields) {
  const std::string text = format_text(line(message, std::move(fields)));
  return text.substr(text.find("] ") + 2);
}

TEST_F(LogText, HasTheHeaderOfKlog) {
  EXPECT_EQ(format_text(line("Synced rules", {{"family", "IPv4"}, {"services", 12}})),
            "I1115 23:19:17.123456    4711 runner.cpp:42] \"Synced rules\" family=\"IPv4\" "
            "services=12\n");
}

TEST_F(LogText, TellsTheSeverityByItsFirstLetter) {
  for (const Severity severity :
       {Severity::Info, Severity::Warning, Severity::Error, Severity::Fatal}) {
    Line one = line("x");
    one.severity = severity;
    EXPECT_EQ(format_text(one)[0], static_cast<char>(severity));
  }
}

TEST_F(LogText, AlignsALongPidToSevenColumns) {
  Line one = line("x");
  one.pid = 4194304;
  EXPECT_EQ(format_text(one), "I1115 23:19:17.123456 4194304 runner.cpp:42] \"x\"\n");
}

TEST_F(LogText, QuotesTextButNotNumbers) {
  EXPECT_EQ(text_tail("m", {{"a", "say \"hi\""}}), "\"m\" a=\"say \\\"hi\\\"\"\n");
  EXPECT_EQ(text_tail("m", {{"a", true}, {"b", -3}, {"c", 1.5}}), "\"m\" a=true b=-3 c=1.5\n");
  EXPECT_EQ(text_tail("m", {{"took", 90s}}), "\"m\" took=\"1m30s\"\n");
  EXPECT_EQ(text_tail("two\nlines", {}), "\"two\\nlines\"\n");
}

TEST_F(LogText, WritesFloatsAsGoDoes) {
  EXPECT_EQ(text_tail("m", {{"a", 0.0}, {"b", 1e20}, {"c", 1e21}, {"d", 1e-5}}),
            "\"m\" a=0 b=100000000000000000000 c=1e+21 d=1e-05\n");
  EXPECT_EQ(text_tail("m", {{"a", std::numeric_limits<double>::infinity()}}), "\"m\" a=\"+Inf\"\n");
}

TEST_F(LogText, IndentsAValueOfSeveralLines) {
  EXPECT_EQ(text_tail("m", {{"k", "one\ntwo"}, {"n", 1}}), "\"m\" k=<\n\tone\n\ttwo\n > n=1\n");
  EXPECT_EQ(text_tail("m", {{"k", "one\n"}}), "\"m\" k=<\n\tone\n >\n");
}

TEST_F(LogJson, IsOneObjectWithTimeCallerMessageAndVerbosity) {
  Line one = line("Synced", {{"family", "IPv4"}, {"services", 12}, {"took", 90s}});
  one.verbosity = 2;
  EXPECT_EQ(format_json(one),
            "{\"ts\":1637018357123.456,\"caller\":\"daemon/runner.cpp:42\",\"msg\":\"Synced\","
            "\"v\":2,\"family\":\"IPv4\",\"services\":12,\"took\":\"1m30s\"}\n");
}

TEST_F(LogJson, HasNoVerbosityOnErrorsAndTheErrorLast) {
  Line one = line("Failed", {{"err", "no such file"}, {"n", 1}});
  one.severity = Severity::Error;
  EXPECT_EQ(format_json(one),
            "{\"ts\":1637018357123.456,\"caller\":\"daemon/runner.cpp:42\",\"msg\":\"Failed\","
            "\"n\":1,\"err\":\"no such file\"}\n");
}

TEST_F(LogJson, EscapesWhatJsonDoesNotAllow) {
  const std::string text = format_json(line("a\"b\\c\nd\te\rf\x01"));
  EXPECT_NE(text.find(R"("msg":"a\"b\\c\nd\te\rf\u0001")"), std::string::npos) << text;
}

TEST_F(LogOutput, GoesToStderrWithTheErrorFirst) {
  testing::internal::CaptureStderr();
  error("Failed", "boom", {{"n", 1}});
  EXPECT_TRUE(testing::internal::GetCapturedStderr().ends_with("] \"Failed\" err=\"boom\" n=1\n"));
}

TEST_F(LogOutput, SplitStreamSendsInfoToStdout) {
  configure({.split_stream = true});
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  info("good");
  warning("bad");
  EXPECT_NE(testing::internal::GetCapturedStdout().find("\"good\""), std::string::npos);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("\"bad\""), std::string::npos);
}

TEST_F(LogOutput, VerboseLinesNeedTheirLevel) {
  configure({.verbosity = 2});
  testing::internal::CaptureStderr();
  verbose(2, "shown");
  verbose(3, "hidden");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("shown"), std::string::npos);
  EXPECT_EQ(text.find("hidden"), std::string::npos);
}

TEST_F(LogOutput, TheVerbosityMayBeChangedAlone) {
  configure({.format = Format::Json, .verbosity = 2});
  set_verbosity(4);
  EXPECT_TRUE(enabled(4));
  EXPECT_FALSE(enabled(5));
  set_verbosity(0);
  EXPECT_FALSE(enabled(1));
  testing::internal::CaptureStderr();
  info("still JSON");
  EXPECT_EQ(testing::internal::GetCapturedStderr().front(), '{');
  configure({.verbosity = 3});
  EXPECT_TRUE(enabled(3));
}

bool enabled_with(std::vector<ModuleLevel> vmodule, int verbosity) {
  configure({.verbosity = 1, .vmodule = std::move(vmodule)});
  return enabled(verbosity);  // from log_test.cpp
}

TEST_F(LogOutput, VmoduleRaisesTheLevelOfMatchingFiles) {
  EXPECT_TRUE(enabled_with({{"log_test", 4}}, 4));
  EXPECT_FALSE(enabled_with({{"log_test", 4}}, 5));
  EXPECT_TRUE(enabled_with({{"log_*", 4}}, 4));
  EXPECT_TRUE(enabled_with({{"l?g_test", 4}}, 4));
  EXPECT_FALSE(enabled_with({{"log", 4}}, 4));
  EXPECT_FALSE(enabled_with({{"runner", 4}}, 4));
}

TEST_F(LogOutput, TheFirstMatchingVmoduleEntryCounts) {
  EXPECT_FALSE(enabled_with({{"log*", 2}, {"log_test", 9}}, 5));
  EXPECT_TRUE(enabled_with({{"log_test", 9}, {"log*", 2}}, 5));
}

TEST_F(LogOutput, VmoduleNeverHidesWhatTheGlobalLevelShows) {
  EXPECT_TRUE(enabled_with({{"log_test", 0}}, 1));
}

TEST_F(LogOutput, MayBeConfiguredWhileOtherThreadsLog) {
  testing::internal::CaptureStderr();
  {
    std::jthread other([] {
      for (int i = 0; i < 200; ++i)
        verbose(1, "line", {{"i", i}});
    });
    for (int i = 0; i < 50; ++i)
      configure({.verbosity = i % 2, .vmodule = {{"log*", 1}}});
  }
  testing::internal::GetCapturedStderr();
}

TEST(GoDuration, PrintsAsGoDoes) {
  EXPECT_EQ(go_duration(0s), "0s");
  EXPECT_EQ(go_duration(1ns), "1ns");
  EXPECT_EQ(go_duration(1100ns), "1.1µs");
  EXPECT_EQ(go_duration(2200us), "2.2ms");
  EXPECT_EQ(go_duration(3300ms), "3.3s");
  EXPECT_EQ(go_duration(15min), "15m0s");
  EXPECT_EQ(go_duration(24h), "24h0m0s");
  EXPECT_EQ(go_duration(4h + 5min + 6s + 1ms), "4h5m6.001s");
  EXPECT_EQ(go_duration(-90s), "-1m30s");
  EXPECT_EQ(go_duration(std::chrono::nanoseconds::min()), "-2562047h47m16.854775808s");
}

}  // namespace
}  // namespace klog
