// The pages of the metrics server: /metrics, /proxyMode, /healthz, /configz. Loop thread.
#pragma once

#include "config/options.h"
#include "metrics/metrics.h"
#include "serve/routes.h"

namespace serve {

// What the pages show; both outlive the routes.
struct MetricsPages {
  const metrics::Metrics& metrics;
  const config::Config& config;  // as configured: "primary" in nodePortAddresses not expanded
};
Routes metrics_routes(const MetricsPages& shown);

// Tells the metrics what they cannot know: the gates and the build.
void describe_process(metrics::Metrics& metrics, const config::Options& options);

}  // namespace serve
