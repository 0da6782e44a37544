#include "metrics/api_metrics.h"

#include <atomic>
#include <limits>
#include <utility>

#include "metrics/bounds.h"
#include "metrics/rows.h"

namespace metrics {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::vector<double> without_last(std::vector<double> bounds) {
  bounds.pop_back();
  return bounds;
}

prometheus::Labels resource_label(std::string_view resource) {
  return {{"resource", std::string(resource)}};
}

}  // namespace

struct ApiMetrics::Rows {
  explicit Rows(Table& given) : table(given) {}

  Table& table;

  Counters requests{table, AllModes, "rest_client_requests_total",
                    "[ALPHA] Number of HTTP requests, partitioned by status code, method, and "
                    "host."};
  Counters retries{table, AllModes, "rest_client_request_retries_total",
                   "[ALPHA] Number of request retries, partitioned by status code, verb, and "
                   "host."};
  Histograms duration{table, AllModes, "rest_client_request_duration_seconds",
                      "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
                      request_bounds()};
  Histograms rate_limiter{table, AllModes, "rest_client_rate_limiter_duration_seconds",
                          "[ALPHA] Client side rate limiter latency in seconds. Broken down by "
                          "verb, and host.",
                          request_bounds()};
  Histograms dns{table, AllModes, "rest_client_dns_resolution_duration_seconds",
                 "[ALPHA] DNS resolver latency in seconds. Broken down by host.",
                 without_last(request_bounds())};
  Histograms request_size{table, AllModes, "rest_client_request_size_bytes",
                          "[ALPHA] Request size in bytes. Broken down by verb and host.",
                          body_bounds()};
  Histograms response_size{table, AllModes, "rest_client_response_size_bytes",
                           "[ALPHA] Response size in bytes. Broken down by verb and host.",
                           body_bounds()};

  Counters plugin_calls{
      table, AllModes, "rest_client_exec_plugin_call_total",
      "[ALPHA] Number of calls to an exec plugin, partitioned by the type of event encountered "
      "(no_error, plugin_execution_error, plugin_not_found_error, client_internal_error) and an "
      "optional exit code. The exit code will be set to 0 if and only if the plugin call was "
      "successful."};
  Histograms rotation_age{
      table,
      AllModes,
      "rest_client_exec_plugin_certificate_rotation_age",
      "[ALPHA] Histogram of the number of seconds the last auth exec plugin client certificate "
      "lived before being rotated. If auth exec plugin client certificates are unused, histogram "
      "will contain no data.",
      rotation_bounds(),
      Labelled::No};

  // Go keeps what connects to a server in a cache; we have one of it.
  Gauges transports{table, AllModes, "rest_client_transport_cache_entries",
                    "[ALPHA] Number of transport entries in the internal cache.", Labelled::No};
  Counters transports_made{
      table, AllModes, "rest_client_transport_create_calls_total",
      "[ALPHA] Number of calls to get a new transport, partitioned by the result of the operation "
      "hit: obtained from the cache, miss: created and added to the cache, miss-gc: recreated and "
      "added back to the cache after being garbage collected, uncacheable: created and not cached"};
  Counters rotation_gc{table, AllModes, "rest_client_transport_cert_rotation_gc_calls_total",
                       "[ALPHA] Number of times a cert rotation goroutine cancel func is called "
                       "via GC cleanup of the associated transport",
                       Labelled::No};

  // Ours.
  Gauges last_heard{table, AllModes, "kubeproxy_api_last_heard_timestamp_seconds",
                    "[ALPHA] The last time the API server sent anything, bookmarks included"};
  Histograms decoding{table, AllModes, "kubeproxy_decode_duration_seconds",
                      "[ALPHA] Time to decode what arrived at once from the API server",
                      stage_bounds()};
  Histograms lag{table, AllModes, "kubeproxy_watch_lag_seconds",
                 "[ALPHA] Time from a change in the cluster, where the object says when that was, "
                 "until its arrival here",
                 request_bounds()};

  std::atomic<int64_t> certificate_expires = kNever;  // in seconds since the epoch
};

ApiMetrics::ApiMetrics(Table& table, std::function<Time()> clock)
    : clock_(std::move(clock)), rows_(std::make_unique<Rows>(table)) {}

ApiMetrics::~ApiMetrics() = default;

void ApiMetrics::connected_to(std::string host) {
  host_ = std::move(host);
  rows_->transports.set({}, 1);
  rows_->transports_made.add({{"result", "miss"}});
}

void ApiMetrics::attempted(std::string_view method, std::string_view code, bool again) {
  const std::string method_text(method);
  const std::string code_text(code);
  rows_->requests.add({{"code", code_text}, {"method", method_text}, {"host", host_}});
  if (again) rows_->retries.add({{"code", code_text}, {"verb", method_text}, {"host", host_}});
}

void ApiMetrics::finished(const ApiRequest& request) {
  const prometheus::Labels labels{{"verb", std::string(request.method)}, {"host", host_}};
  rows_->duration.observe(labels, seconds(request.took));
  rows_->request_size.observe(labels, static_cast<double>(request.sent_bytes));
  if (request.received_bytes)
    rows_->response_size.observe(labels, static_cast<double>(*request.received_bytes));
}

void ApiMetrics::throttled(std::string_view method, std::chrono::nanoseconds waited) {
  rows_->rate_limiter.observe({{"verb", std::string(method)}, {"host", host_}}, seconds(waited));
}

void ApiMetrics::resolved(std::string_view host, std::chrono::nanoseconds took) {
  rows_->dns.observe({{"host", std::string(host)}}, seconds(took));
}

void ApiMetrics::plugin_called(int exit_code, std::string_view status) {
  rows_->plugin_calls.add(
      {{"code", std::to_string(exit_code)}, {"call_status", std::string(status)}});
}

void ApiMetrics::certificate_given(std::chrono::sys_seconds expires) {
  rows_->certificate_expires = expires.time_since_epoch().count();
}

void ApiMetrics::certificate_replaced(std::chrono::seconds age) {
  rows_->rotation_age.observe({}, seconds(age));
}

void ApiMetrics::heard(std::string_view resource, std::chrono::nanoseconds decoding) {
  const auto labels = resource_label(resource);
  rows_->last_heard.set(labels, seconds(clock_().time_since_epoch()));
  rows_->decoding.observe(labels, seconds(decoding));
}

void ApiMetrics::lagged(std::string_view resource, std::chrono::nanoseconds lag) {
  rows_->lag.observe(resource_label(resource), seconds(lag));
}

void ApiMetrics::collect(std::vector<prometheus::MetricFamily>& families) const {
  const int64_t expires = rows_->certificate_expires;
  prometheus::ClientMetric sample;
  sample.gauge.value = std::numeric_limits<double>::infinity();
  if (expires != kNever)
    sample.gauge.value = static_cast<double>(expires) - seconds(clock_().time_since_epoch());
  families.push_back(
      {"rest_client_exec_plugin_ttl_seconds",
       "[ALPHA] Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by "
       "the auth exec plugin. The value is in seconds until certificate expiry (negative if "
       "already expired). If auth exec plugins are unused or manage no TLS certificates, the value "
       "will be +INF.",
       prometheus::MetricType::Gauge,
       {std::move(sample)}});
}

}  // namespace metrics
