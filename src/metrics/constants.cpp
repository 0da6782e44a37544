#include "metrics/constants.h"

#include <utility>

namespace metrics {
namespace {

prometheus::ClientMetric sample(prometheus::MetricType type, const prometheus::Labels& labels,
                                double value) {
  prometheus::ClientMetric metric;
  for (const auto& [name, text] : labels)
    metric.label.push_back({name, text});
  (type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return metric;
}

}  // namespace

void Constants::set(const Row& row, const prometheus::Labels& labels, double value) {
  const std::lock_guard lock(mutex_);
  auto& family = families_[row.name];
  family.row = row;
  family.samples[labels] = value;
  written_.clear();
}

Constants::Shown Constants::written(Format format) const {
  const std::lock_guard lock(mutex_);
  auto& written = written_[format];
  if (written) return written;
  auto made = std::make_shared<std::vector<Written>>();
  for (const auto& [name, family] : families_) {
    prometheus::MetricFamily whole{name, family.row.help, family.row.type, {}};
    for (const auto& [labels, value] : family.samples)
      whole.metric.push_back(sample(family.row.type, labels, value));
    made->push_back({name, write_family(std::move(whole), format)});
  }
  written = std::move(made);
  return written;
}

}  // namespace metrics
