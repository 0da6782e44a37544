#include "serve/health_pages.h"

#include <stdlib.h>
#include <time.h>

#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace serve {
namespace {

using net::Family;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

// The time zone of this process, for the length of a test.
class TimeZone {
 public:
  explicit TimeZone(const char* zone) {
    if (const char* before = ::getenv("TZ")) before_ = before;
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
  ~TimeZone() {
    before_ ? ::setenv("TZ", before_->c_str(), 1) : ::unsetenv("TZ");
    ::tzset();
  }

 private:
  std::optional<std::string> before_;
};

class HealthPagesTest : public testing::Test {
 protected:
  http::Answer ask(const std::string& path) {
    return answer(routes_, {.method = "GET", .path = path});
  }
  void start_both_families() {
    health_.updated(Family::V4);
    wall_ += seconds(1);
    health_.updated(Family::V6);
    wall_ += seconds(1);
  }
  void fall_behind(Family family) {
    health_.queued(family);
    steady_ += seconds(60);
  }

  TimeZone zone_{"UTC"};
  Health::Wall wall_{seconds(1'794'775'396)};  // 2026-11-15T20:43:16Z
  Health::Steady steady_{};
  Health health_{seconds(60),
                 {.wall = [this] { return wall_; }, .steady = [this] { return steady_; }}};
  std::vector<int> healthz_;
  std::vector<int> livez_;
  Routes routes_ =
      health_routes({.health = health_,
                     .healthz_answered = [this](int status) { healthz_.push_back(status); },
                     .livez_answered = [this](int status) { livez_.push_back(status); }});
};

TEST_F(HealthPagesTest, AHealthyProxyOnAnEligibleNode) {
  start_both_families();
  health_.set_node_eligible(true);
  const auto shown = ask("/healthz");
  EXPECT_EQ(shown.status, 200);
  EXPECT_THAT(shown.headers, ElementsAre(Pair("Content-Type", "application/json"),
                                         Pair("X-Content-Type-Options", "nosniff")));
  EXPECT_EQ(shown.body,
            R"({"lastUpdated":"2026-11-15T20:43:18Z","currentTime":"2026-11-15T20:43:18Z",)"
            R"("nodeEligible":true,"healthy":true,"status":{)"
            R"("IPv4":{"lastUpdated":"2026-11-15T20:43:16Z","healthy":true},)"
            R"("IPv6":{"lastUpdated":"2026-11-15T20:43:17Z","healthy":true}}})");
}

TEST_F(HealthPagesTest, ANodeThatIsNotEligibleFailsHealthzOnly) {
  start_both_families();
  EXPECT_EQ(ask("/healthz").status, 503);
  EXPECT_THAT(
      ask("/healthz").body,
      StartsWith(R"({"lastUpdated":"2026-11-15T20:43:17Z",)"
                 R"("currentTime":"2026-11-15T20:43:18Z","nodeEligible":false,"healthy":true,)"));
  EXPECT_EQ(ask("/livez").status, 200);
  EXPECT_THAT(ask("/livez").body,
              StartsWith(R"({"lastUpdated":"2026-11-15T20:43:18Z",)"
                         R"("currentTime":"2026-11-15T20:43:18Z","healthy":true,"status":{)"));
}

TEST_F(HealthPagesTest, AProxyThatFallsBehindFailsBoth) {
  start_both_families();
  health_.set_node_eligible(true);
  fall_behind(Family::V6);
  EXPECT_EQ(ask("/healthz").status, 503);
  EXPECT_EQ(ask("/livez").status, 503);
  EXPECT_THAT(ask("/livez").body,
              HasSubstr(R"("healthy":false,"status":{)"
                        R"("IPv4":{"lastUpdated":"2026-11-15T20:43:16Z","healthy":true},)"
                        R"("IPv6":{"lastUpdated":"2026-11-15T20:43:17Z","healthy":false}}})"));
}

TEST_F(HealthPagesTest, BeforeAnyFamilyHasStartedThereIsNoStatus) {
  EXPECT_EQ(
      ask("/livez").body,
      R"({"lastUpdated":"2026-11-15T20:43:16Z","currentTime":"2026-11-15T20:43:16Z","healthy":true})");
  EXPECT_EQ(ask("/healthz").body,
            R"({"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"2026-11-15T20:43:16Z",)"
            R"("nodeEligible":false,"healthy":true})");
}

TEST_F(HealthPagesTest, AFamilyThatHasNotStartedIsLeftOut) {
  health_.updated(Family::V6);
  EXPECT_THAT(
      ask("/livez").body,
      HasSubstr(R"("status":{"IPv6":{"lastUpdated":"2026-11-15T20:43:16Z","healthy":true}}})"));
}

TEST_F(HealthPagesTest, TimesHaveAsManyDigitsAsTheyNeed) {
  const auto shown = [this](nanoseconds part) {
    wall_ = Health::Wall(seconds(1'794'775'396) + part);
    return ask("/livez").body.substr(16, 30);
  };
  EXPECT_EQ(shown(nanoseconds(939'599'673)), "2026-11-15T20:43:16.939599673Z");
  EXPECT_THAT(shown(milliseconds(500)), StartsWith("2026-11-15T20:43:16.5Z\""));
  EXPECT_THAT(shown(nanoseconds(1'000)), StartsWith("2026-11-15T20:43:16.000001Z\""));
  EXPECT_THAT(shown(nanoseconds(0)), StartsWith("2026-11-15T20:43:16Z\""));
}

TEST_F(HealthPagesTest, TimesAreThoseOfTheNode) {
  {
    const TimeZone east("XST-5:30");
    EXPECT_THAT(ask("/livez").body, HasSubstr("\"2026-11-16T02:13:16+05:30\""));
  }
  const TimeZone west("XST+3");
  EXPECT_THAT(ask("/livez").body, HasSubstr("\"2026-11-15T17:43:16-03:00\""));
}

TEST_F(HealthPagesTest, AnswersAreCountedByStatus) {
  start_both_families();
  ask("/healthz");
  health_.set_node_eligible(true);
  ask("/healthz");
  ask("/livez");
  fall_behind(Family::V4);
  ask("/livez");
  EXPECT_THAT(healthz_, ElementsAre(503, 200));
  EXPECT_THAT(livez_, ElementsAre(200, 503));
}

TEST_F(HealthPagesTest, OtherPathsAreNotFound) {
  for (const auto* path : {"/", "/healthz/", "/healthz/ping", "/readyz", "/metrics"})
    EXPECT_EQ(ask(path).status, 404) << path;
}

}  // namespace
}  // namespace serve
