// Field numbers as in io/prometheus/client/metrics.proto.

#include "metrics/exposition_proto.h"

#include <cmath>

#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

namespace metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using protozero::pbf_writer;

enum Type : int32_t { kCounter = 0, kGauge = 1, kSummary = 2, kUntyped = 3, kHistogram = 4 };

Type type_of(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return kCounter;
    case MetricType::Gauge:
      return kGauge;
    case MetricType::Summary:
      return kSummary;
    case MetricType::Histogram:
      return kHistogram;
    default:
      return kUntyped;
  }
}

// Gauge, Counter and Untyped are all {1: value}.
void add_value(pbf_writer& metric, uint32_t field, double value) {
  pbf_writer message(metric, field);
  message.add_double(1, value);
}

void add_summary(pbf_writer& metric, const ClientMetric::Summary& summary) {
  pbf_writer message(metric, 4);
  message.add_uint64(1, summary.sample_count);
  message.add_double(2, summary.sample_sum);
  for (const auto& quantile : summary.quantile) {
    pbf_writer one(message, 3);
    one.add_double(1, quantile.quantile);
    one.add_double(2, quantile.value);
  }
}

// As Go's client does it, the bucket of infinity is left out: the count says the same.
void add_histogram(pbf_writer& metric, const ClientMetric::Histogram& histogram) {
  pbf_writer message(metric, 7);
  message.add_uint64(1, histogram.sample_count);
  message.add_double(2, histogram.sample_sum);
  for (const auto& bucket : histogram.bucket) {
    if (std::isinf(bucket.upper_bound)) continue;
    pbf_writer one(message, 3);
    one.add_uint64(1, bucket.cumulative_count);
    one.add_double(2, bucket.upper_bound);
  }
}

void add_sample(pbf_writer& metric, MetricType type, const ClientMetric& sample) {
  switch (type) {
    case MetricType::Counter:
      return add_value(metric, 3, sample.counter.value);
    case MetricType::Gauge:
      return add_value(metric, 2, sample.gauge.value);
    case MetricType::Summary:
      return add_summary(metric, sample.summary);
    case MetricType::Histogram:
      return add_histogram(metric, sample.histogram);
    default:
      return add_value(metric, 5, sample.untyped.value);
  }
}

void add_metric(pbf_writer& family, MetricType type, const ClientMetric& sample) {
  pbf_writer metric(family, 4);
  for (const auto& label : sample.label) {
    pbf_writer pair(metric, 1);
    pair.add_string(1, label.name);
    pair.add_string(2, label.value);
  }
  add_sample(metric, type, sample);
}

}  // namespace

void append_protobuf(std::string& out, const MetricFamily& family) {
  std::string bytes;
  pbf_writer message(bytes);
  message.add_string(1, family.name);
  message.add_string(2, family.help);
  message.add_enum(3, type_of(family.type));
  for (const auto& sample : family.metric)
    add_metric(message, family.type, sample);
  protozero::write_varint(std::back_inserter(out), bytes.size());
  out += bytes;
}

}  // namespace metrics
