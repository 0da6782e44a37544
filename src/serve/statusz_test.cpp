#include "serve/statusz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace serve {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::system_clock::time_point;

TEST(Statusz, SaysSinceWhenItRunsAndWhatItIs) {
  const Time started(1794809125s);
  const StatusFacts facts{
      started, started + 25h + 61s + 900ms, "v1.36.4", {"/configz", "/metrics"}};
  EXPECT_EQ(show_zpage(statusz(facts), "").body,
            "\nkube-proxy statusz\n"
            "Warning: This endpoint is not meant to be machine parseable, has no formatting "
            "compatibility guarantees and is for debugging purposes only.\n\n"
            "Started: Mon Nov 16 06:05:25 UTC 2026\n"
            "Up: 25 hr 01 min 01 sec\n"
            "Go version: none (C++)\n"
            "Binary version: 1.36.4\n"
            "Emulation version: 1.36\n"
            "Paths: /configz /metrics\n");
  EXPECT_EQ(
      show_zpage(statusz(facts), "application/json;v=v1beta1;g=config.k8s.io;as=Statusz").body,
      R"j({"kind":"Statusz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kube-proxy"},)j"
      R"j("startTime":"2026-11-16T06:05:25Z","uptimeSeconds":90061,"goVersion":"none (C++)",)j"
      R"j("binaryVersion":"1.36.4","emulationVersion":"1.36","paths":["/configz","/metrics"]})j"
      "\n");
}

TEST(Statusz, AClockThatWasSetBackMakesNoNegativeTime) {
  const StatusFacts facts{Time(100s), Time(50s), "v1.36.4", {}};
  EXPECT_THAT(statusz(facts).text, testing::HasSubstr("\nUp: 0 hr 00 min 00 sec\n"));
}

}  // namespace
}  // namespace serve
