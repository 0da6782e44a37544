// Upper bounds of the buckets of histograms. Pure.
#pragma once

#include <vector>

namespace metrics {

// first, first * factor, ... `count` of them.
inline std::vector<double> exponential(double first, double factor, int count) {
  std::vector<double> bounds;
  for (double bound = first; count > 0; --count, bound *= factor)
    bounds.push_back(bound);
  return bounds;
}

// Appends first, first + step, ... up to and including `last`.
inline void append_linear(std::vector<double>& bounds, double first, double step, double last) {
  for (double bound = first; bound <= last; bound += step)
    bounds.push_back(bound);
}

// A sync, in seconds: 0.001, 0.002, 0.004 ... 16.384.
inline std::vector<double> sync_bounds() { return exponential(0.001, 2, 15); }

// From a change in the cluster to the kernel of this node, in seconds.
inline std::vector<double> programming_bounds() {
  std::vector<double> bounds{0, 0.25, 0.5};
  append_linear(bounds, 1, 1, 59);
  append_linear(bounds, 60, 5, 115);
  append_linear(bounds, 120, 30, 300);
  return bounds;
}

// A stage of our own work, in seconds: from 10 microseconds to 10 s.
inline std::vector<double> stage_bounds() {
  return {1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1, 10};
}

// A request to the API server, in seconds.
inline std::vector<double> request_bounds() {
  return {0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60};
}

// The body of a request or of an answer, in bytes.
inline std::vector<double> body_bounds() {
  return {64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216};
}

// How old a certificate was when it was replaced, in seconds: from 10 minutes to 4 years.
inline std::vector<double> rotation_bounds() {
  return {600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000};
}

}  // namespace metrics
