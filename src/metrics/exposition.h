// Metrics as Prometheus reads them: its text format 0.0.4, or its protobuf messages, each behind its
// length.
//
// As Go's client prints it, for whoever parses the text with a regular expression: sorted by name, then
// by label values, numbers in their shortest form. prometheus-cpp's own serializer keeps no order,
// prints 0.1 as 0.10000000000000001, and knows no protobuf.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <prometheus/metric_family.h>

namespace metrics {

enum class Format { Text, Protobuf };

// A family as it is sent; empty if it has no samples.
std::string write_family(prometheus::MetricFamily family, Format format);

// Written before, for families that never change.
struct Written {
  std::string name;
  std::string bytes;
};

// Families without samples are left out. `ready` is sorted by name.
std::string write(std::vector<prometheus::MetricFamily> families, Format format,
                  std::span<const Written> ready = {});

inline std::string write_text(std::vector<prometheus::MetricFamily> families) {
  return write(std::move(families), Format::Text);
}

}  // namespace metrics
