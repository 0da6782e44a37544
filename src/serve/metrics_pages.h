// The pages of the metrics server: /metrics, /metrics/slis, /proxyMode, /healthz, /configz, with their
// gates /flagz and /statusz, and with profiling those of debug_pages.h. Loop thread.
#pragma once

#include <string>

#include "config/options.h"
#include "metrics/metrics.h"
#include "serve/flagz.h"
#include "serve/routes.h"

namespace serve {

// What the pages show; the metrics and the configuration outlive the routes.
struct MetricsPages {
  const metrics::Metrics& metrics;
  const config::Config& config;  // as configured: "primary" in nodePortAddresses not expanded
  FlagTexts flags{};
  std::string version = "v1.36.4";  // of this binary
};
Routes metrics_routes(const MetricsPages& shown);

// Tells the metrics what they cannot know: the gates and the build.
void describe_process(metrics::Metrics& metrics, const config::Options& options);

}  // namespace serve
