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
  http::Answer ask_for(const std::string& path, const std::string& accept,
                       const std::string& accept_encoding = "") {
    return answer(
        routes_,
        {.method = "GET", .path = path, .accept = accept, .accept_encoding = accept_encoding});
  }
  std::string type_for(const std::string& accept) {
    return ask_for("/metrics", accept).headers.at(0).second;
  }
  void restart() { routes_ = metrics_routes({metrics_, options_.config, options_.flags}); }

  config::Options options_ = default_options();
  metrics::Metrics metrics_{"iptables",
                            [] { return metrics::Metrics::Time(std::chrono::milliseconds(7900)); }};
  Routes routes_ = metrics_routes({metrics_, options_.config, options_.flags});
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

constexpr const char* kText = "text/plain; version=0.0.4; charset=utf-8; escaping=";
constexpr const char* kProtobuf =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
    "encoding=delimited; escaping=";

TEST_F(MetricsPagesTest, MetricsComeInTheFormThatIsAskedFor) {
  EXPECT_EQ(type_for("*/*"), std::string(kText) + "underscores");
  EXPECT_EQ(type_for("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
            std::string(kText) + "underscores");
  EXPECT_EQ(type_for("text/plain;version=1.0.0;escaping=allow-utf-8"),
            std::string(kText) + "allow-utf-8");
  EXPECT_EQ(type_for("application/openmetrics-text;version=1.0.0"),
            std::string(kText) + "underscores");
  const std::string delimited =
      "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
  EXPECT_EQ(type_for(delimited), std::string(kProtobuf) + "underscores");
  EXPECT_EQ(type_for(delimited + ";escaping=allow-utf-8;q=0.6,text/plain;q=0.2"),
            std::string(kProtobuf) + "allow-utf-8");
  EXPECT_EQ(type_for(delimited + ";q=0.1,text/plain"), std::string(kText) + "underscores");
  EXPECT_THAT(ask_for("/metrics", delimited).body,
              HasSubstr("\x30kubeproxy_sync_proxy_rules_service_changes_total"));
}

TEST_F(MetricsPagesTest, MetricsAreCompressedOnDemand) {
  const auto shown = ask_for("/metrics", "", "gzip");
  EXPECT_THAT(shown.headers.at(0), Pair("Content-Encoding", "gzip"));
  EXPECT_THAT(shown.body, StartsWith("\x1f\x8b"));
  EXPECT_THAT(ask_for("/metrics", "", "gzip;q=0").body, StartsWith("# HELP"));
}

TEST_F(MetricsPagesTest, IndicatorsCountHowOftenHealthWasAskedFor) {
  ask("/healthz");
  ask("/healthz", "verbose");
  ask("/healthz", "exclude=ping");
  EXPECT_THAT(ask("/metrics/slis").body,
              HasSubstr("kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type="
                        "\"healthz\"} 2\n"));
}

TEST_F(MetricsPagesTest, FlagsAndStatusAreShownUnlessTheirGatesAreOff) {
  EXPECT_THAT(ask("/flagz").body, HasSubstr("\nbind-address:0.0.0.0\n"));
  EXPECT_THAT(ask("/statusz").body,
              HasSubstr("\nPaths: /configz /flagz /healthz /metrics /proxyMode\n"));
  options_.config.feature_gates["ComponentFlagz"] = false;
  restart();
  EXPECT_EQ(ask("/flagz").status, 404);
  EXPECT_THAT(ask("/statusz").body, HasSubstr("\nPaths: /configz /healthz /metrics /proxyMode\n"));
  options_.config.feature_gates["ComponentStatusz"] = false;
  restart();
  EXPECT_EQ(ask("/statusz").status, 404);
}

TEST_F(MetricsPagesTest, DebuggingNeedsProfiling) {
  for (const auto* path : {"/debug/pprof", "/debug/pprof/", "/debug/flags", "/debug/flags/v"})
    EXPECT_EQ(ask(path).status, 404) << path;
  options_.config.enable_profiling = true;
  restart();
  EXPECT_EQ(ask("/debug/pprof").status, 302);
  EXPECT_EQ(ask("/debug/pprof/").status, 200);
  EXPECT_EQ(ask("/debug").status, 404);
}

}  // namespace
}  // namespace serve
