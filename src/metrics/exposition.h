// Metrics as Prometheus reads them, text format 0.0.4.
//
// As Go's client prints it, for whoever parses it with a regular expression: sorted by name, then by
// label values, numbers in their shortest form. prometheus-cpp's own serializer keeps no order and
// prints 0.1 as 0.10000000000000001.
#pragma once

#include <string>
#include <vector>

#include <prometheus/metric_family.h>

namespace metrics {

// Families without samples are left out.
std::string write_text(std::vector<prometheus::MetricFamily> families);

}  // namespace metrics
