#include "serve/metrics_pages.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "base/text.h"
#include "codec/json.h"
#include "config/gates.h"
#include "metrics/slis.h"
#include "serve/accept.h"
#include "serve/compress.h"
#include "serve/debug_pages.h"
#include "serve/statusz.h"

namespace serve {
namespace {

using http::Answer;
using http::Incoming;

// How metrics are sent, and what is said about that.
struct MetricsForm {
  metrics::Format format = metrics::Format::Text;
  std::string content_type;
};

// Parity: OpenMetrics is not offered, and whoever accepts nothing that we have gets text. Our names look
// the same under every way of escaping; the one that was asked for is named.
MetricsForm negotiate(const std::string& accept) {
  static const std::set<std::string_view> kEscapings{"allow-utf-8", "underscores", "dots",
                                                     "values"};
  std::string escaping = "underscores";
  for (const Accepted& accepted : parse_accept(accept)) {
    if (const auto wanted = accepted.parameter("escaping"); kEscapings.contains(wanted))
      escaping = wanted;
    if (accepted.type == "application/vnd.google.protobuf" &&
        accepted.parameter("proto") == "io.prometheus.client.MetricFamily" &&
        accepted.parameter("encoding") == "delimited") {
      return {metrics::Format::Protobuf,
              "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
              "encoding=delimited; escaping=" +
                  escaping};
    }
    if (accepted.type == "text/plain") break;
  }
  return {metrics::Format::Text, "text/plain; version=0.0.4; charset=utf-8; escaping=" + escaping};
}

// `show` gives the body in a format.
template <typename Show>
Answer show_metrics(const Incoming& incoming, metrics::Metrics::Time started, Show show) {
  const MetricsForm form = negotiate(incoming.accept);
  Answer answer{.body = show(form.format)};
  if (accepts(incoming.accept_encoding, "gzip")) {
    answer.headers.emplace_back("Content-Encoding", "gzip");
    answer.body = gzip(answer.body);
  }
  answer.headers.emplace_back("Content-Type", form.content_type);
  answer.headers.emplace_back("Process-Start-Time-Unix",
                              std::to_string(std::chrono::system_clock::to_time_t(started)));
  return answer;
}

// The only check, "ping", never fails; it can be left out all the same.
Answer show_healthz(const Incoming& incoming, metrics::Slis& slis) {
  const auto values = http::query_values(incoming.query, "exclude");
  std::set<std::string> excluded(values.begin(), values.end());
  const bool without_ping = excluded.erase("ping") > 0;
  if (!without_ping) slis.ping_succeeded();
  if (http::query_values(incoming.query, "verbose").empty()) return http::text_answer(200, "ok");
  std::string text = without_ping ? "[+]ping excluded: ok\n" : "[+]ping ok\n";
  std::vector<std::string> unknown;
  for (const auto& name : excluded)
    unknown.push_back(base::quote(name));
  if (!unknown.empty()) {
    text += "warn: some health checks cannot be excluded: no matches for " +
            base::join(unknown, ",") + "\n";
  }
  return http::text_answer(200, text + "healthz check passed\n");
}

// Parity: unlike its neighbours, it lets a browser guess the type.
Answer show_ping() {
  return {.headers = {{"Content-Type", "text/plain; charset=utf-8"}}, .body = "ok"};
}

Answer show_config(const config::Config& config) {
  std::string body = "{\"kubeproxy.config.k8s.io\":";
  codec::json::append(body, config::to_document(config));
  body += '}';
  return {.headers = {{"Content-Type", "application/json"}, {"X-Content-Type-Options", "nosniff"}},
          .body = std::move(body)};
}

void add_zpages(Routes& routes, const MetricsPages& shown) {
  std::vector<std::string> paths{"/configz", "/healthz", "/metrics", "/proxyMode"};
  if (config::gate_enabled(shown.config, "ComponentFlagz")) {
    paths.insert(paths.begin() + 1, "/flagz");
    routes.push_back({"/flagz", [page = flagz(shown.flags)](const Incoming& incoming) {
                        return show_zpage(page, incoming.accept);
                      }});
  }
  if (!config::gate_enabled(shown.config, "ComponentStatusz")) return;
  routes.push_back({"/statusz", [&metrics = shown.metrics, version = shown.version,
                                 paths = std::move(paths)](const Incoming& incoming) {
                      return show_zpage(statusz({.started = metrics.started(),
                                                 .now = std::chrono::system_clock::now(),
                                                 .version = version,
                                                 .paths = paths}),
                                        incoming.accept);
                    }});
}

constexpr const char* platform() {
#if defined(__aarch64__)
  return "linux/arm64";
#else
  return "linux/amd64";
#endif
}

}  // namespace

Routes metrics_routes(const MetricsPages& shown) {
  const auto& metrics = shown.metrics;
  const auto& config = shown.config;
  const auto slis = std::make_shared<metrics::Slis>();
  Routes routes{
      {"/metrics",
       [&metrics](const Incoming& incoming) {
         return show_metrics(incoming, metrics.started(),
                             [&](metrics::Format format) { return metrics.show(format); });
       }},
      {"/metrics/slis",
       [&metrics, slis](const Incoming& incoming) {
         return show_metrics(incoming, metrics.started(),
                             [&](metrics::Format format) { return slis->show(format); });
       }},
      {"/proxyMode", [&config](const Incoming&) { return http::text_answer(200, config.mode); }},
      {"/healthz", [slis](const Incoming& incoming) { return show_healthz(incoming, *slis); }},
      {"/healthz/ping", [](const Incoming&) { return show_ping(); }},
      {"/configz", [&config](const Incoming&) { return show_config(config); }},
  };
  add_zpages(routes, shown);
  if (config.enable_profiling) std::ranges::move(debug_routes(), std::back_inserter(routes));
  return routes;
}

void describe_process(metrics::Metrics& metrics, const config::Options& options) {
  for (const auto& gate : config::known_gates()) {
    metrics.feature_enabled(gate.name, config::name(gate.stage),
                            config::gate_enabled(options.config, gate.name));
  }
  metrics.build_info({{"build_date", ""},
                      {"compiler", "g++ " __VERSION__},
                      {"git_commit", ""},
                      {"git_tree_state", ""},
                      {"git_version", options.version},
                      {"go_version", "none (C++)"},
                      {"major", "1"},
                      {"minor", "36"},
                      {"platform", platform()}});
}

}  // namespace serve
