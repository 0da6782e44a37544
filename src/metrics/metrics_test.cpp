#include "metrics/metrics.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace metrics {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class MetricsTest : public testing::Test {
 protected:
  std::string text() const { return metrics_.text(); }

  Metrics::Time now_{std::chrono::milliseconds(1'731'715'196'500)};
  Metrics metrics_{"iptables", [this] { return now_; }};
};

constexpr auto kV4 = net::Family::V4;
constexpr auto kV6 = net::Family::V6;

TEST_F(MetricsTest, AnUnlabelledMetricIsThereFromTheStart) {
  EXPECT_THAT(text(),
              AllOf(HasSubstr("\nkubeproxy_sync_proxy_rules_service_changes_total 0\n"),
                    HasSubstr("\nkubeproxy_sync_proxy_rules_endpoint_changes_pending 0\n")));
}

TEST_F(MetricsTest, ALabelledMetricIsNotThereBeforeItWasUsed) {
  EXPECT_THAT(text(), Not(HasSubstr("duration_seconds")));
}

TEST_F(MetricsTest, HelpAndTypeAreThoseOfKubeProxy) {
  metrics_.sync_queued(kV4);
  EXPECT_THAT(
      text(),
      HasSubstr("# HELP kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds [ALPHA] The last "
                "time a sync of proxy rules was queued\n"
                "# TYPE kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds gauge\n"
                "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family=\"IPv4\"} "
                "1.7317151965e+09\n"));
}

TEST_F(MetricsTest, ASyncIsCountedInAllAndInItsKind) {
  metrics_.sync_finished({.family = kV4, .full = true, .ok = true, .duration = milliseconds(4)});
  metrics_.sync_finished({.family = kV4, .full = false, .ok = true, .duration = milliseconds(3)});
  metrics_.sync_finished({.family = kV6, .full = false, .ok = true, .duration = milliseconds(1)});
  EXPECT_THAT(
      text(),
      AllOf(
          HasSubstr("\nkubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 2\n"),
          HasSubstr(
              "\nkubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1\n"),
          HasSubstr("\nkubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="
                    "\"IPv4\"} 1\n"),
          HasSubstr("\nkubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="
                    "\"IPv6\"} 1\n"),
          Not(HasSubstr("sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv6\"}"))));
}

TEST_F(MetricsTest, BucketsDoubleFromAMillisecondAndIncludeTheirBound) {
  metrics_.sync_finished({.family = kV4, .full = true, .ok = true, .duration = milliseconds(4)});
  std::string buckets;
  const std::string all = text();
  for (const auto line : base::split(all, '\n')) {
    if (line.starts_with("kubeproxy_sync_proxy_rules_duration_seconds_bucket"))
      buckets += std::string(line.substr(line.find("le="))) + "\n";
  }
  EXPECT_EQ(buckets,
            "le=\"0.001\"} 0\nle=\"0.002\"} 0\nle=\"0.004\"} 1\nle=\"0.008\"} 1\n"
            "le=\"0.016\"} 1\nle=\"0.032\"} 1\nle=\"0.064\"} 1\nle=\"0.128\"} 1\n"
            "le=\"0.256\"} 1\nle=\"0.512\"} 1\nle=\"1.024\"} 1\nle=\"2.048\"} 1\n"
            "le=\"4.096\"} 1\nle=\"8.192\"} 1\nle=\"16.384\"} 1\nle=\"+Inf\"} 1\n");
}

TEST_F(MetricsTest, OnlyASuccessSetsTheTimeOfTheLastSync) {
  metrics_.sync_finished({.family = kV4, .full = true, .ok = false});
  EXPECT_THAT(text(), Not(HasSubstr("last_timestamp_seconds")));
  metrics_.sync_finished({.family = kV4, .full = true, .ok = true});
  EXPECT_THAT(text(), HasSubstr("\nkubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="
                                "\"IPv4\"} 1.7317151965e+09\n"));
}

TEST_F(MetricsTest, FailuresOfPartialSyncsAreCountedTwice) {
  metrics_.sync_finished({.family = kV4, .full = false, .ok = false});
  metrics_.sync_finished({.family = kV4, .full = true, .ok = false});
  EXPECT_THAT(text(),
              AllOf(HasSubstr("iptables_restore_failures_total{ip_family=\"IPv4\"} 2\n"),
                    HasSubstr("iptables_partial_restore_failures_total{ip_family=\"IPv4\"} 1\n")));
}

TEST_F(MetricsTest, ChangesPendUntilASyncTakesThem) {
  metrics_.service_changed(2);
  metrics_.endpoints_changed();
  metrics_.endpoints_changed();
  EXPECT_THAT(
      text(),
      AllOf(HasSubstr("service_changes_total 2\n"), HasSubstr("service_changes_pending 1\n"),
            HasSubstr("endpoint_changes_total 2\n"), HasSubstr("endpoint_changes_pending 2\n")));
  metrics_.sync_started(kV6);
  EXPECT_THAT(text(), AllOf(HasSubstr("service_changes_pending 0\n"),
                            HasSubstr("endpoint_changes_pending 0\n"),
                            HasSubstr("endpoint_changes_total 2\n")));
}

TEST_F(MetricsTest, RulesAreCountedByTable) {
  metrics_.iptables_rules(kV4, "nat", {.total = 12, .written = 3});
  EXPECT_THAT(text(), AllOf(HasSubstr("iptables_total{ip_family=\"IPv4\",table=\"nat\"} 12\n"),
                            HasSubstr("iptables_last{ip_family=\"IPv4\",table=\"nat\"} 3\n")));
}

TEST_F(MetricsTest, GatesAndTheBuildAreShown) {
  metrics_.feature_enabled("AllowServiceExternalIPs", "", true);
  metrics_.feature_enabled("NativeHistograms", "ALPHA", false);
  metrics_.build_info({{"git_version", "v1.36.4"}, {"major", "1"}});
  EXPECT_THAT(
      text(),
      AllOf(HasSubstr("\nkubernetes_build_info{git_version=\"v1.36.4\",major=\"1\"} 1\n"),
            HasSubstr(
                "\nkubernetes_feature_enabled{name=\"AllowServiceExternalIPs\",stage=\"\"} 1\n"),
            HasSubstr(
                "\nkubernetes_feature_enabled{name=\"NativeHistograms\",stage=\"ALPHA\"} 0\n")));
}

TEST(Metrics, AModeShowsItsOwnMetricsOnly) {
  Metrics ipvs("ipvs");
  ipvs.sync_finished({.family = kV4, .full = true, .ok = true});
  ipvs.iptables_rules(kV4, "nat", {.total = 1, .written = 1});
  EXPECT_THAT(ipvs.text(),
              AllOf(HasSubstr("kubeproxy_sync_proxy_rules_duration_seconds_count"),
                    Not(HasSubstr("sync_full_proxy_rules")), Not(HasSubstr("iptables_total"))));
}

TEST(Metrics, EachFamilyIsShownOnceAndTheProcessWithThem) {
  const std::string text = Metrics("nftables").text();
  EXPECT_THAT(text, HasSubstr("\n# TYPE process_cpu_seconds_total counter\n"));
  std::vector<std::string> names;
  for (const auto line : base::split(text, '\n'))
    if (line.starts_with("# TYPE ")) names.emplace_back(base::split(line, ' ')[2]);
  auto sorted = names;
  std::ranges::sort(sorted);
  sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
  EXPECT_EQ(names, sorted);
}

TEST(Metrics, ThreadsMayObserveWhileAnotherShows) {
  Metrics metrics("iptables");
  {
    std::vector<std::jthread> threads;
    for (const auto family : net::kFamilies) {
      threads.emplace_back([&metrics, family] {
        for (int i = 0; i < 1000; ++i) {
          metrics.sync_queued(family);
          metrics.sync_started(family);
          metrics.sync_finished({.family = family, .full = i % 2 == 0, .ok = true});
        }
      });
    }
    for (int i = 0; i < 20; ++i)
      metrics.text();
  }
  EXPECT_THAT(metrics.text(),
              AllOf(HasSubstr("_duration_seconds_count{ip_family=\"IPv4\"} 1000\n"),
                    HasSubstr("_duration_seconds_count{ip_family=\"IPv6\"} 1000\n")));
}

}  // namespace
}  // namespace metrics
