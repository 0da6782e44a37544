#include "metrics/exposition.h"

#include <cmath>

#include <gtest/gtest.h>

namespace metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily gauge(std::string name, std::vector<ClientMetric::Label> labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  return {std::move(name), "help", MetricType::Gauge, {metric}};
}

// The last line's value.
std::string number(double value) {
  const std::string text = write_text({gauge("x", {}, value)});
  return text.substr(text.rfind("x ") + 2);
}

TEST(Exposition, NumbersLookAsGoPrintsThem) {
  EXPECT_EQ(number(0), "0\n");
  EXPECT_EQ(number(1), "1\n");
  EXPECT_EQ(number(-1), "-1\n");
  EXPECT_EQ(number(0.1), "0.1\n");
  EXPECT_EQ(number(0.001), "0.001\n");
  EXPECT_EQ(number(0.00001), "1e-05\n");
  EXPECT_EQ(number(16.384), "16.384\n");
  EXPECT_EQ(number(999999), "999999\n");
  EXPECT_EQ(number(1e6), "1e+06\n");
  EXPECT_EQ(number(16777216), "1.6777216e+07\n");
  EXPECT_EQ(number(1731715196.939599), "1.731715196939599e+09\n");
  EXPECT_EQ(number(18446744073709551615.0), "1.8446744073709552e+19\n");
  EXPECT_EQ(number(INFINITY), "+Inf\n");
  EXPECT_EQ(number(-INFINITY), "-Inf\n");
  EXPECT_EQ(number(NAN), "NaN\n");
}

TEST(Exposition, FamiliesAreSortedByNameAndSamplesByLabels) {
  auto two = gauge("b", {{"ip_family", "IPv6"}}, 6);
  two.metric.push_back(gauge("b", {{"ip_family", "IPv4"}}, 4).metric[0]);
  EXPECT_EQ(write_text({two, gauge("a", {{"z", "1"}, {"y", "2"}}, 1)}),
            "# HELP a help\n"
            "# TYPE a gauge\n"
            "a{y=\"2\",z=\"1\"} 1\n"
            "# HELP b help\n"
            "# TYPE b gauge\n"
            "b{ip_family=\"IPv4\"} 4\n"
            "b{ip_family=\"IPv6\"} 6\n");
}

TEST(Exposition, TextIsEscaped) {
  auto family = gauge("a", {{"l", "q\"b\\n\n"}}, 1);
  family.help = "q\"b\\n\n";
  EXPECT_EQ(write_text({family}),
            "# HELP a q\"b\\\\n\\n\n"
            "# TYPE a gauge\n"
            "a{l=\"q\\\"b\\\\n\\n\"} 1\n");
}

TEST(Exposition, AFamilyWithoutSamplesIsLeftOut) {
  EXPECT_EQ(write_text({{"a", "help", MetricType::Counter, {}}}), "");
}

TEST(Exposition, AHistogramEndsWithInfinitySumAndCount) {
  ClientMetric metric;
  metric.label = {{"ip_family", "IPv4"}};
  metric.histogram = {.sample_count = 3, .sample_sum = 2.5, .bucket = {{1, 0.001}, {2, 0.25}}};
  EXPECT_EQ(write_text({{"h", "[ALPHA] help", MetricType::Histogram, {metric}}}),
            "# HELP h [ALPHA] help\n"
            "# TYPE h histogram\n"
            "h_bucket{ip_family=\"IPv4\",le=\"0.001\"} 1\n"
            "h_bucket{ip_family=\"IPv4\",le=\"0.25\"} 2\n"
            "h_bucket{ip_family=\"IPv4\",le=\"+Inf\"} 3\n"
            "h_sum{ip_family=\"IPv4\"} 2.5\n"
            "h_count{ip_family=\"IPv4\"} 3\n");
  metric.label = {};
  EXPECT_EQ(write_text({{"h", "help", MetricType::Histogram, {metric}}}),
            "# HELP h help\n"
            "# TYPE h histogram\n"
            "h_bucket{le=\"0.001\"} 1\n"
            "h_bucket{le=\"0.25\"} 2\n"
            "h_bucket{le=\"+Inf\"} 3\n"
            "h_sum 2.5\n"
            "h_count 3\n");
}

TEST(Exposition, WhatIsReadyStandsAmongTheOthersByName) {
  const std::vector<Written> ready{{"a", "A"}, {"c", "C"}, {"d", "D"}};
  EXPECT_EQ(write({gauge("cc", {}, 1), gauge("b", {}, 1)}, Format::Text, ready),
            "A# HELP b help\n# TYPE b gauge\nb 1\nC# HELP cc help\n# TYPE cc gauge\ncc 1\nD");
}

// Bytes in the order of io.prometheus.client.MetricFamily's fields.
TEST(Exposition, ProtobufMessagesStandBehindTheirLength) {
  EXPECT_EQ(write({gauge("a", {{"l", "v"}}, 0)}, Format::Protobuf),
            std::string("\x20"
                        "\x0a\x01"
                        "a\x12\x04help\x18\x01"
                        "\x22\x13"
                        "\x0a\x06\x0a\x01l\x12\x01v"
                        "\x12\x09\x09\0\0\0\0\0\0\0\0",
                        33));
}

TEST(Exposition, AHistogramInProtobufLeavesOutInfinity) {
  ClientMetric metric;
  metric.histogram = {.sample_count = 3, .sample_sum = 0, .bucket = {{1, 0}, {3, INFINITY}}};
  EXPECT_EQ(write({{"h", "x", MetricType::Histogram, {metric}}}, Format::Protobuf),
            std::string("\x24"
                        "\x0a\x01h\x12\x01x\x18\x04"
                        "\x22\x1a"
                        "\x3a\x18"
                        "\x08\x03\x11\0\0\0\0\0\0\0\0"
                        "\x1a\x0b\x08\x01\x11\0\0\0\0\0\0\0\0",
                        37));
}

}  // namespace
}  // namespace metrics
