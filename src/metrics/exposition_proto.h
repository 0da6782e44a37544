// A family as a message io.prometheus.client.MetricFamily; only exposition.cpp calls this.
#pragma once

#include <string>

#include <prometheus/metric_family.h>

namespace metrics {

// With its length in front. REQUIRES: labels and samples are in order.
void append_protobuf(std::string& out, const prometheus::MetricFamily& family);

}  // namespace metrics
