// What the process costs: process_cpu_seconds_total and its kind, read from /proc when asked.
#pragma once

#include <string>
#include <vector>

#include <prometheus/metric_family.h>

namespace metrics {

// What cannot be read is left out. `proc` is another folder in tests.
std::vector<prometheus::MetricFamily> process_families(const std::string& proc = "/proc");

}  // namespace metrics
