#include "serve/metrics_pages.h"

#include <set>

#include "base/text.h"
#include "codec/json.h"
#include "config/gates.h"

namespace serve {
namespace {

using http::Answer;
using http::Incoming;

Answer show_metrics(const metrics::Metrics& metrics) {
  const auto started = std::chrono::system_clock::to_time_t(metrics.started());
  return {.headers = {{"Content-Type",
                       "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"},
                      {"Process-Start-Time-Unix", std::to_string(started)}},
          .body = metrics.text()};
}

// The only check, "ping", never fails; it can be left out all the same.
Answer show_healthz(const Incoming& incoming) {
  if (http::query_values(incoming.query, "verbose").empty()) return http::text_answer(200, "ok");
  const auto values = http::query_values(incoming.query, "exclude");
  std::set<std::string> excluded(values.begin(), values.end());
  std::string text = excluded.erase("ping") > 0 ? "[+]ping excluded: ok\n" : "[+]ping ok\n";
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
  return {
      {"/metrics", [&metrics](const Incoming&) { return show_metrics(metrics); }},
      {"/proxyMode", [&config](const Incoming&) { return http::text_answer(200, config.mode); }},
      {"/healthz", &show_healthz},
      {"/healthz/ping", [](const Incoming&) { return show_ping(); }},
      {"/configz", [&config](const Incoming&) { return show_config(config); }},
  };
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
