#include "serve/metrics_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace serve {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

config::Options default_options() {
  auto parsed = config::parse_command_line({});
  return parsed.options;
}

class MetricsPagesTest : public testing::Test {
 protected:
  http::Answer ask(const std::string& path, const std::string& query = "") {
    return answer(routes_, {.method = "GET", .path = path, .query = query});
  }

  config::Options options_ = default_options();
  metrics::Metrics metrics_{"iptables",
                            [] { return metrics::Metrics::Time(std::chrono::milliseconds(7900)); }};
  Routes routes_ = metrics_routes({metrics_, options_.config});
};

const auto kPlain = Pair("Content-Type", "text/plain; charset=utf-8");
const auto kNoSniff = Pair("X-Content-Type-Options", "nosniff");

TEST_F(MetricsPagesTest, MetricsAreShownWithTheTimeOfTheStart) {
  const auto shown = ask("/metrics");
  EXPECT_EQ(shown.status, 200);
  EXPECT_THAT(shown.headers,
              ElementsAre(Pair("Content-Type",
                               "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"),
                          Pair("Process-Start-Time-Unix", "7")));
  EXPECT_THAT(shown.body, HasSubstr("kubeproxy_sync_proxy_rules_service_changes_total 0\n"));
}

TEST_F(MetricsPagesTest, TheModeIsABareWord) {
  const auto shown = ask("/proxyMode");
  EXPECT_THAT(shown.headers, ElementsAre(kPlain, kNoSniff));
  EXPECT_EQ(shown.body, "iptables");
}

TEST_F(MetricsPagesTest, HealthzIsAlwaysFine) {
  const auto shown = ask("/healthz");
  EXPECT_EQ(shown.status, 200);
  EXPECT_THAT(shown.headers, ElementsAre(kPlain, kNoSniff));
  EXPECT_EQ(shown.body, "ok");
}

TEST_F(MetricsPagesTest, VerboseHealthzNamesItsCheck) {
  EXPECT_EQ(ask("/healthz", "verbose").body, "[+]ping ok\nhealthz check passed\n");
  EXPECT_EQ(ask("/healthz", "verbose=false").body, "[+]ping ok\nhealthz check passed\n");
  EXPECT_EQ(ask("/healthz", "verbose&exclude=ping").body,
            "[+]ping excluded: ok\nhealthz check passed\n");
  EXPECT_EQ(ask("/healthz", "verbose&exclude=b&exclude=a").body,
            "[+]ping ok\n"
            "warn: some health checks cannot be excluded: no matches for \"a\",\"b\"\n"
            "healthz check passed\n");
}

TEST_F(MetricsPagesTest, PingHasNoHeaderAgainstGuessing) {
  EXPECT_EQ(ask("/healthz/ping").body, "ok");
  EXPECT_THAT(ask("/healthz/ping").headers, ElementsAre(kPlain));
}

TEST_F(MetricsPagesTest, TheConfigurationIsShownAsJson) {
  const auto shown = ask("/configz");
  EXPECT_THAT(shown.headers, ElementsAre(Pair("Content-Type", "application/json"), kNoSniff));
  EXPECT_THAT(shown.body,
              AllOf(StartsWith("{\"kubeproxy.config.k8s.io\":{\"kind\":\"KubeProxyConfiguration\","
                               "\"apiVersion\":\"kubeproxy.config.k8s.io/v1alpha1\","),
                    HasSubstr("\"metricsBindAddress\":\"127.0.0.1:10249\""), EndsWith("}}")));
}

TEST_F(MetricsPagesTest, OtherPathsAreNotFound) {
  for (const auto* path : {"/", "", "/livez", "/readyz", "/metrics/", "/Metrics", "/healthz/log"}) {
    const auto shown = ask(path);
    EXPECT_EQ(shown.status, 404) << path;
    EXPECT_EQ(shown.body, "404 page not found\n");
    EXPECT_THAT(shown.headers, ElementsAre(kPlain, kNoSniff));
  }
}

TEST_F(MetricsPagesTest, TheGatesAndTheBuildAreDescribed) {
  options_.config.feature_gates["NativeHistograms"] = true;
  describe_process(metrics_, options_);
  EXPECT_THAT(
      ask("/metrics").body,
      AllOf(
          HasSubstr("kubernetes_feature_enabled{name=\"NativeHistograms\",stage=\"ALPHA\"} 1\n"),
          HasSubstr("kubernetes_feature_enabled{name=\"AllowServiceExternalIPs\",stage=\"\"} 1\n"),
          HasSubstr("git_version=\"v1.36.4\",go_version=\"none (C++)\",major=\"1\",minor=\"36\"")));
}

}  // namespace
}  // namespace serve
