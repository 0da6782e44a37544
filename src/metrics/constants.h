// Metrics that are told once, at the start, and shown with every scrape: which gates are on, what was
// built. There are hundreds of samples, so they are written once and kept. Any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <prometheus/labels.h>
#include <prometheus/metric_family.h>

#include "metrics/exposition.h"

namespace metrics {

class Constants {
 public:
  struct Row {
    std::string name;
    std::string help;
    prometheus::MetricType type = prometheus::MetricType::Gauge;
  };

  // Sets one sample of that family.
  void set(const Row& row, const prometheus::Labels& labels, double value);

  using Shown = std::shared_ptr<const std::vector<Written>>;
  // Sorted by name.
  Shown written(Format format) const;

 private:
  struct Family {
    Row row;
    std::map<prometheus::Labels, double> samples;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;
  mutable std::map<Format, Shown> written_;  // what was asked for since the last set()
};

}  // namespace metrics
