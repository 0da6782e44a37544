#include "metrics/exposition.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "metrics/exposition_proto.h"

namespace metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

void append_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general).ptr;
    out.append(text, end);
  }
}

void append_escaped(std::string& out, std::string_view text, bool in_quotes) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\\' || (c == '"' && in_quotes)) out += '\\';
      out += c;
    }
  }
}

std::string_view type_name(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Summary:
      return "summary";
    case MetricType::Histogram:
      return "histogram";
    default:
      return "untyped";
  }
}

// Writes the samples of one metric: NAME{labels} VALUE.
class Samples {
 public:
  Samples(std::string& out, const std::string& name, const ClientMetric& metric)
      : out_(out), name_(name), metric_(metric) {}

  void add(std::string_view suffix, double value) {
    begin(suffix);
    if (!metric_.label.empty()) out_ += '}';
    end(value);
  }

  // With one more label, whose value is a number.
  void add(std::string_view suffix, std::string_view label, double number, double value) {
    begin(suffix);
    out_ += metric_.label.empty() ? '{' : ',';
    out_.append(label) += "=\"";
    append_number(out_, number);
    out_ += "\"}";
    end(value);
  }

 private:
  void begin(std::string_view suffix) {
    out_.append(name_) += suffix;
    char separator = '{';
    for (const auto& label : metric_.label) {
      out_ += separator;
      out_.append(label.name) += "=\"";
      append_escaped(out_, label.value, true);
      out_ += '"';
      separator = ',';
    }
  }
  void end(double value) {
    out_ += ' ';
    append_number(out_, value);
    out_ += '\n';
  }

  std::string& out_;
  const std::string& name_;
  const ClientMetric& metric_;
};

void append_histogram(Samples& samples, const ClientMetric::Histogram& histogram) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto count = static_cast<double>(histogram.sample_count);
  bool complete = false;
  for (const auto& bucket : histogram.bucket) {
    samples.add("_bucket", "le", bucket.upper_bound, static_cast<double>(bucket.cumulative_count));
    complete = complete || bucket.upper_bound == kInfinity;
  }
  if (!complete) samples.add("_bucket", "le", kInfinity, count);
  samples.add("_sum", histogram.sample_sum);
  samples.add("_count", count);
}

void append_metric(std::string& out, const MetricFamily& family, const ClientMetric& metric) {
  Samples samples(out, family.name, metric);
  switch (family.type) {
    case MetricType::Counter:
      return samples.add("", metric.counter.value);
    case MetricType::Gauge:
      return samples.add("", metric.gauge.value);
    case MetricType::Histogram:
      return append_histogram(samples, metric.histogram);
    case MetricType::Summary:
      for (const auto& quantile : metric.summary.quantile)
        samples.add("", "quantile", quantile.quantile, quantile.value);
      samples.add("_sum", metric.summary.sample_sum);
      return samples.add("_count", static_cast<double>(metric.summary.sample_count));
    default:
      return samples.add("", metric.untyped.value);
  }
}

void append_text(std::string& out, const MetricFamily& family) {
  out.append("# HELP ").append(family.name) += ' ';
  append_escaped(out, family.help, false);
  out.append("\n# TYPE ").append(family.name) += ' ';
  out.append(type_name(family.type)) += '\n';
  for (const auto& metric : family.metric)
    append_metric(out, family, metric);
}

void append_family(std::string& out, MetricFamily& family, Format format) {
  if (family.metric.empty()) return;
  for (auto& metric : family.metric)
    std::ranges::sort(metric.label, std::less<>());
  std::ranges::sort(family.metric, std::less<>(), &ClientMetric::label);
  if (format == Format::Text) {
    append_text(out, family);
  } else {
    append_protobuf(out, family);
  }
}

}  // namespace

std::string write_family(MetricFamily family, Format format) {
  std::string out;
  append_family(out, family, format);
  return out;
}

std::string write(std::vector<MetricFamily> families, Format format,
                  std::span<const Written> ready) {
  std::ranges::sort(families, {}, &MetricFamily::name);
  std::string out;
  for (auto& family : families) {
    for (; !ready.empty() && ready.front().name < family.name; ready = ready.subspan(1))
      out += ready.front().bytes;
    append_family(out, family, format);
  }
  for (const auto& written : ready)
    out += written.bytes;
  return out;
}

}  // namespace metrics
