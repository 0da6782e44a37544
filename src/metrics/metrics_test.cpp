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
using testing::ElementsAre;
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

std::vector<std::string> lines_with(const std::string& text, std::string_view part) {
  std::vector<std::string> found;
  for (const auto line : base::split(text, '\n'))
    if (line.contains(part)) found.emplace_back(line);
  return found;
}

TEST_F(MetricsTest, NetworkProgrammingHasTheBucketsOfKubeProxy) {
  metrics_.network_programmed(kV4, milliseconds(1500));
  const auto buckets = lines_with(text(), "network_programming_duration_seconds_bucket");
  ASSERT_EQ(buckets.size(), 82u);
  const auto bucket = [](const std::string& bound, int count) {
    return "kubeproxy_network_programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"" +
           bound + "\"} " + std::to_string(count);
  };
  EXPECT_EQ(buckets[0], bucket("0", 0));
  EXPECT_EQ(buckets[1], bucket("0.25", 0));
  EXPECT_EQ(buckets[2], bucket("0.5", 0));
  EXPECT_EQ(buckets[3], bucket("1", 0));
  EXPECT_EQ(buckets[4], bucket("2", 1));
  EXPECT_EQ(buckets[61], bucket("59", 1));
  EXPECT_EQ(buckets[62], bucket("60", 1));
  EXPECT_EQ(buckets[63], bucket("65", 1));
  EXPECT_EQ(buckets[73], bucket("115", 1));
  EXPECT_EQ(buckets[74], bucket("120", 1));
  EXPECT_EQ(buckets[75], bucket("150", 1));
  EXPECT_EQ(buckets[80], bucket("300", 1));
  EXPECT_EQ(buckets[81], bucket("+Inf", 1));
}

TEST_F(MetricsTest, ServicesWithoutLocalEndpointsAreCountedByPolicy) {
  metrics_.no_local_endpoints(kV6, 2, 3);
  EXPECT_THAT(lines_with(text(), "no_local_endpoints_total{"),
              ElementsAre("kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family=\"IPv6\","
                          "traffic_policy=\"external\"} 3",
                          "kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family=\"IPv6\","
                          "traffic_policy=\"internal\"} 2"));
}

TEST_F(MetricsTest, AnswersAboutHealthAreCountedByStatus) {
  metrics_.healthz_answered(200);
  metrics_.healthz_answered(503);
  metrics_.healthz_answered(200);
  metrics_.livez_answered(200);
  EXPECT_THAT(text(), AllOf(HasSubstr("\nkubeproxy_proxy_healthz_total{code=\"200\"} 2\n"),
                            HasSubstr("\nkubeproxy_proxy_healthz_total{code=\"503\"} 1\n"),
                            HasSubstr("\nkubeproxy_proxy_livez_total{code=\"200\"} 1\n")));
}

TEST_F(MetricsTest, ReconcilingConntrackIsTimedAndCounted) {
  metrics_.conntrack_reconciled(kV4, milliseconds(3), 0);
  metrics_.conntrack_reconciled(kV4, milliseconds(3), 5);
  EXPECT_THAT(
      text(),
      AllOf(
          HasSubstr("kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family=\"IPv4\"}"
                    " 2\n"),
          HasSubstr(
              "kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv4\"} 5\n")));
}

TEST_F(MetricsTest, PacketsAreReadWithEveryScrapeAndSkippedWhileThereIsNoCounter) {
  EXPECT_THAT(text(), Not(HasSubstr("packets_total")));
  std::optional<uint64_t> dropped;
  metrics_.count_packets([&] { return dropped; }, [] { return std::optional<uint64_t>(7); });
  EXPECT_THAT(text(), AllOf(Not(HasSubstr("ct_state_invalid_dropped_packets_total")),
                            HasSubstr("localhost_nodeports_accepted_packets_total 7\n")));
  dropped = 3;
  EXPECT_THAT(text(), HasSubstr("ct_state_invalid_dropped_packets_total 3\n"));
}

TEST_F(MetricsTest, OurOwnAreShownByFamily) {
  metrics_.sync_stage(kV4, "plan", milliseconds(2));
  metrics_.dirty_services(kV4, 12);
  metrics_.kernel_drifted(kV4, 0);
  metrics_.kernel_drifted(kV4, 2);
  EXPECT_THAT(
      text(),
      AllOf(
          HasSubstr("kubeproxy_sync_stage_duration_seconds_count{ip_family=\"IPv4\",stage=\"plan\"}"
                    " 1\n"),
          HasSubstr("kubeproxy_dirty_services{ip_family=\"IPv4\"} 12\n"),
          HasSubstr("kubeproxy_kernel_drift_total{ip_family=\"IPv4\"} 2\n")));
}

TEST_F(MetricsTest, ConnectionsOfServicesThatAreGoneAreGone) {
  EXPECT_THAT(text(), Not(HasSubstr("service_connections")));
  const ServiceConnections web{"default", "web", "http", "TCP", 5};
  metrics_.service_connections(kV4, {web, {"default", "db", "5432", "TCP", 1}});
  metrics_.service_connections(kV6, {web});
  metrics_.service_connections(kV4, {web});
  EXPECT_THAT(lines_with(text(), "service_connections_total{"),
              ElementsAre("kubeproxy_service_connections_total{ip_family=\"IPv4\",namespace="
                          "\"default\",port=\"http\",protocol=\"TCP\",service=\"web\"} 5",
                          "kubeproxy_service_connections_total{ip_family=\"IPv6\",namespace="
                          "\"default\",port=\"http\",protocol=\"TCP\",service=\"web\"} 5"));
}

TEST_F(MetricsTest, TheApiServerIsKnownByItsHost) {
  EXPECT_THAT(text(),
              AllOf(HasSubstr("\nrest_client_exec_plugin_ttl_seconds +Inf\n"),
                    HasSubstr("\nrest_client_transport_cache_entries 0\n"),
                    HasSubstr("\nrest_client_exec_plugin_certificate_rotation_age_count 0\n"),
                    Not(HasSubstr("rest_client_request"))));
  auto& api = metrics_.api();
  api.connected_to("10.0.0.1:6443");
  api.throttled("GET", {});
  api.attempted("GET", "429", false);
  api.attempted("GET", "200", true);
  api.finished({.method = "GET", .took = milliseconds(30), .sent_bytes = 0, .received_bytes = 300});
  EXPECT_THAT(
      text(),
      AllOf(
          HasSubstr("\nrest_client_requests_total{code=\"429\",host=\"10.0.0.1:6443\",method="
                    "\"GET\"} 1\n"),
          HasSubstr("\nrest_client_request_retries_total{code=\"200\",host=\"10.0.0.1:6443\",verb="
                    "\"GET\"} 1\n"),
          HasSubstr("\nrest_client_request_duration_seconds_bucket{host=\"10.0.0.1:6443\",verb="
                    "\"GET\",le=\"0.1\"} 1\n"),
          HasSubstr("\nrest_client_response_size_bytes_sum{host=\"10.0.0.1:6443\",verb=\"GET\"} "
                    "300\n"),
          HasSubstr("\nrest_client_rate_limiter_duration_seconds_count{host=\"10.0.0.1:6443\","
                    "verb=\"GET\"} 1\n"),
          HasSubstr("\nrest_client_transport_cache_entries 1\n")));
}

TEST_F(MetricsTest, APluginsCertificateRunsOutWhileTimePasses) {
  metrics_.api().certificate_given(std::chrono::floor<std::chrono::seconds>(now_) +
                                   std::chrono::minutes(10));
  EXPECT_THAT(text(), HasSubstr("\nrest_client_exec_plugin_ttl_seconds 599.5\n"));
  now_ += std::chrono::minutes(20);
  EXPECT_THAT(text(), HasSubstr("\nrest_client_exec_plugin_ttl_seconds -600.5\n"));
}

TEST_F(MetricsTest, ItIsKnownWhenTheApiServerWasHeardAndHowLateItWas) {
  metrics_.api().heard("services", milliseconds(1));
  metrics_.api().lagged("endpointslices", milliseconds(30));
  EXPECT_THAT(text(),
              AllOf(HasSubstr("kubeproxy_api_last_heard_timestamp_seconds{resource="
                              "\"services\"} 1.7317151965e+09\n"),
                    HasSubstr("kubeproxy_decode_duration_seconds_count{resource=\"services\"} "
                              "1\n"),
                    HasSubstr("kubeproxy_watch_lag_seconds_sum{resource=\"endpointslices\"} "
                              "0.03\n")));
}

TEST_F(MetricsTest, RegisteredMetricsAreCountedByStability) {
  EXPECT_THAT(text(),
              AllOf(HasSubstr("registered_metrics_total{deprecated_version=\"\",stability_level="
                              "\"ALPHA\"}"),
                    HasSubstr("\nhidden_metrics_total 0\n")));
}

TEST(Metrics, FailuresAreCountedAsTheModeCallsThem) {
  Metrics nftables("nftables");
  nftables.sync_finished({.family = kV4, .full = false, .ok = false});
  nftables.nftables_cleanup_failed(kV4, 1);
  nftables.count_packets([] { return std::optional<uint64_t>(1); }, nullptr);
  EXPECT_THAT(nftables.text(),
              AllOf(HasSubstr("nftables_sync_failures_total{ip_family=\"IPv4\"} 1\n"),
                    HasSubstr("nftables_cleanup_failures_total{ip_family=\"IPv4\"} 1\n"),
                    Not(HasSubstr("restore_failures")), Not(HasSubstr("dropped_packets"))));
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
