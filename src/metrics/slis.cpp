#include "metrics/slis.h"

#include <utility>

#include "metrics/process.h"

namespace metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

ClientMetric ping_sample() {
  ClientMetric sample;
  sample.label = {{"name", "ping"}, {"type", "healthz"}};
  return sample;
}

}  // namespace

std::string Slis::show(Format format) const {
  std::vector<prometheus::MetricFamily> families;
  for (auto& family : process_families()) {
    if (family.name != "process_start_time_seconds") continue;
    family.help = "[ALPHA] " + family.help;
    families.push_back(std::move(family));
  }
  if (pings_ > 0) {
    ClientMetric last = ping_sample();
    last.gauge.value = 1;
    ClientMetric all = ping_sample();
    all.label.push_back({"status", "success"});
    all.counter.value = static_cast<double>(pings_);
    families.push_back({"kubernetes_healthcheck",
                        "[STABLE] This metric records the result of a single healthcheck.",
                        MetricType::Gauge,
                        {last}});
    families.push_back({"kubernetes_healthchecks_total",
                        "[STABLE] This metric records the results of all healthcheck.",
                        MetricType::Counter,
                        {all}});
  }
  return write(std::move(families), format);
}

}  // namespace metrics
