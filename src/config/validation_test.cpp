#include "config/validation.h"

#include <limits>

#include <gtest/gtest.h>

#include "config/aggregate.h"

namespace config {
namespace {

using namespace std::chrono_literals;

Config valid() {
  Config config;
  config.mode = "iptables";
  config.detect_local_mode = "ClusterCIDR";
  return config;
}

// The errors of a valid configuration after one change, without the common prefix.
std::string errors_after(const std::function<void(Config&)>& change) {
  Config config = valid();
  change(config);
  const auto errors = validate(config);
  if (errors.empty()) return "";
  constexpr std::string_view kPrefix = "KubeProxyConfiguration.";
  const std::string text = aggregate(errors);
  return text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text;
}

std::string logging_errors_after(const std::function<void(Config&)>& change) {
  Config config = valid();
  change(config);
  const auto errors = validate_logging(config);
  return errors.empty() ? "" : aggregate(errors);
}

// ERRORS(c.mode = "x"): what is wrong after that change.
#define ERRORS(...) errors_after([](Config& c) { __VA_ARGS__; })
#define LOGGING_ERRORS(...) logging_errors_after([](Config& c) { __VA_ARGS__; })

TEST(Validation, TheDefaultsAreValid) {
  EXPECT_EQ(ERRORS((void)c), "");
  EXPECT_EQ(LOGGING_ERRORS((void)c), "");
}

TEST(Validation, SeveralErrorsStandInBrackets) {
  EXPECT_EQ(ERRORS(c.oom_score_adj = 2000; c.client_connection.burst = -1),
            "[KubeProxyConfiguration.KubeProxyLinuxConfiguration.OOMScoreAdj: Invalid value: 2000: "
            "must be within the range [-1000, 1000], "
            "KubeProxyConfiguration.ClientConnection.Burst: Invalid value: -1: must be greater "
            "than or equal to 0]");
}

TEST(Validation, GatesMustBeSettable) {
  EXPECT_EQ(ERRORS(c.feature_gates["Foo"] = true),
            "featureGates: Invalid value: {\"Foo\":true}: unrecognized feature gate: Foo");
}

TEST(Validation, MasqueradeBitsAreWithinAMark) {
  constexpr auto kRange = ": must be within the range [0, 31]";
  EXPECT_EQ(
      ERRORS(c.iptables.masquerade_bit = 32),
      std::string("KubeProxyIPTablesConfiguration.MasqueradeBit: Invalid value: 32") + kRange);
  EXPECT_EQ(ERRORS(c.nftables.masquerade_bit = -1), "");
  EXPECT_EQ(
      ERRORS(c.mode = "nftables"; c.nftables.masquerade_bit = -1),
      std::string("KubeProxyNFTablesConfiguration.MasqueradeBit: Invalid value: -1") + kRange);
}

TEST(Validation, IpvsIsCheckedInItsModeOnly) {
  EXPECT_EQ(ERRORS(c.ipvs.tcp_timeout = -1s), "");
  EXPECT_EQ(
      ERRORS(c.mode = "ipvs"; c.ipvs.tcp_timeout = -1s),
      "KubeProxyIPVSConfiguration.TCPTimeout: Invalid value: \"-1s\": must be greater than or "
      "equal to 0");
  EXPECT_EQ(ERRORS(c.mode = "ipvs"; c.ipvs.exclude_cidrs = {"10.0.0.0/8", "x"}),
            "KubeProxyIPVSConfiguration.ExcludeCidrs[1]: Invalid value: \"x\": must be a valid "
            "CIDR");
}

TEST(Validation, ConntrackNumbersAreNotNegative) {
  const std::string path = "KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration.";
  const std::string detail = ": must be greater than or equal to 0";
  EXPECT_EQ(ERRORS(c.conntrack.max_per_core = -1), path + "MaxPerCore: Invalid value: -1" + detail);
  EXPECT_EQ(ERRORS(c.conntrack.min = -1), path + "Min: Invalid value: -1" + detail);
  EXPECT_EQ(ERRORS(c.conntrack.tcp_established_timeout = -1s),
            path + "TCPEstablishedTimeout: Invalid value: \"-1s\"" + detail);
  EXPECT_EQ(ERRORS(c.conntrack.tcp_close_wait_timeout = -1s),
            path + "TCPCloseWaitTimeout: Invalid value: \"-1s\"" + detail);
  EXPECT_EQ(ERRORS(c.conntrack.udp_timeout = -1s),
            path + "UDPTimeout: Invalid value: \"-1s\"" + detail);
  EXPECT_EQ(ERRORS(c.conntrack.udp_stream_timeout = -1s),
            path + "UDPStreamTimeout: Invalid value: \"-1s\"" + detail);
}

TEST(Validation, TheModeIsOneOfThree) {
  EXPECT_EQ(ERRORS(c.mode = "userspace"), "");
  EXPECT_EQ(ERRORS(c.mode = "ebpf"),
            "Mode.ProxyMode: Invalid value: \"ebpf\": must be iptables, ipvs, nftables, userspace "
            "or blank (blank means the best-available proxy [currently iptables])");
}

TEST(Validation, UserspaceIsCheckedInItsModeOnly) {
  EXPECT_EQ(ERRORS(c.port_range = "nonsense"; c.udp_idle_timeout = 0s), "");
  EXPECT_EQ(ERRORS(c.mode = "userspace"; c.port_range = "300-2000"), "");
  EXPECT_EQ(ERRORS(c.mode = "userspace"; c.port_range = "nonsense"),
            "PortRange: Invalid value: \"nonsense\": must be a valid port range (e.g. 300-2000)");
  EXPECT_EQ(ERRORS(c.mode = "userspace"; c.udp_idle_timeout = 0s),
            "UDPIdleTimeout: Invalid value: \"0s\": must be greater than 0");
}

TEST(Validation, PeriodsArePositiveAndInOrder) {
  EXPECT_EQ(ERRORS(c.config_sync_period = 0s),
            "ConfigSyncPeriod: Invalid value: \"0s\": must be greater than 0");
  EXPECT_EQ(ERRORS(c.min_sync_period = -1s),
            "MinSyncPeriod: Invalid value: \"-1s\": must be greater than or equal to 0");
  EXPECT_EQ(ERRORS(c.min_sync_period = 1min),
            "SyncPeriod: Invalid value: \"1m0s\": must be greater than or equal to "
            "KubeProxyConfiguration.MinSyncPeriod");
  EXPECT_EQ(ERRORS(c.sync_period = 0s; c.min_sync_period = 0s),
            "SyncPeriod: Invalid value: \"0s\": must be greater than 0");
}

TEST(Validation, AddressesAreAddresses) {
  EXPECT_EQ(ERRORS(c.bind_address = "x"),
            "BindAddress: Invalid value: \"x\": not a valid textual representation of an IP "
            "address");
  EXPECT_EQ(ERRORS(c.bind_address = "010.0.0.1"), "");
  EXPECT_EQ(ERRORS(c.healthz_bind_address = ""), "");
  EXPECT_EQ(ERRORS(c.healthz_bind_address = "1.2.3.4"),
            "HealthzBindAddress: Invalid value: \"1.2.3.4\": must be IP:port");
  EXPECT_EQ(ERRORS(c.healthz_bind_address = "x:1"),
            "HealthzBindAddress: Invalid value: \"x\": must be a valid IP");
  EXPECT_EQ(ERRORS(c.healthz_bind_address = "[::]:0"),
            "HealthzBindAddress: Invalid value: \"0\": must be a valid port");
  EXPECT_EQ(ERRORS(c.metrics_bind_address = "1.2.3.4:65536"),
            "MetricsBindAddress: Invalid value: \"65536\": must be a valid port");
  EXPECT_EQ(ERRORS(c.metrics_bind_address = ""),
            "MetricsBindAddress: Invalid value: \"\": must be IP:port");
}

TEST(Validation, NodePortAddressesAreCidrsOrPrimaryAlone) {
  EXPECT_EQ(ERRORS(c.node_port_addresses = {"primary"}), "");
  EXPECT_EQ(ERRORS(c.node_port_addresses = {"10.0.0.0/8", "fd00::/8"}), "");
  EXPECT_EQ(ERRORS(c.node_port_addresses = {"10.0.0.1"}),
            "NodePortAddresses[0]: Invalid value: \"10.0.0.1\": must be a valid CIDR");
  EXPECT_EQ(ERRORS(c.node_port_addresses = {"10.0.0.0/8", "primary"}),
            "NodePortAddresses[1]: Invalid value: \"primary\": can't use both 'primary' and CIDRs");
}

TEST(Validation, HiddenMetricsAreThoseOfThePreviousMinorVersion) {
  EXPECT_EQ(ERRORS(c.show_hidden_metrics_for_version = "1.35"), "");
  EXPECT_EQ(ERRORS(c.show_hidden_metrics_for_version = "1.2"),
            "ShowHiddenMetricsForVersion: Invalid value: \"1.2\": invalid "
            "showHiddenMetricsForVersion: showHiddenMetricsForVersion: Invalid value: \"1.2\": "
            "must be omitted or have the value '1.35'; only the previous minor version is allowed");
}

TEST(Validation, LocalModesNeedTheirSettings) {
  EXPECT_EQ(ERRORS(c.detect_local_mode = "Foo"),
            "DetectLocalMode: Unsupported value: \"Foo\": supported values: \"ClusterCIDR\", "
            "\"NodeCIDR\", \"BridgeInterface\", \"InterfaceNamePrefix\", \"\"");
  EXPECT_EQ(ERRORS(c.detect_local_mode = "NodeCIDR"), "");
  EXPECT_EQ(ERRORS(c.detect_local_mode = "BridgeInterface"),
            "DetectLocalConfiguration.InterfaceName: Invalid value: \"\": must not be empty");
  EXPECT_EQ(ERRORS(c.detect_local_mode = "InterfaceNamePrefix"),
            "DetectLocalConfiguration.InterfacePrefix: Invalid value: \"\": must not be empty");
}

TEST(Validation, ClusterCidrsAreOneOrAPairOfBothFamilies) {
  const std::string path = "DetectLocalConfiguration.ClusterCIDRs";
  const std::string pair =
      ": must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, "
      "fde4:8dba:82e1::/48]";
  const std::string block =
      ": must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)";
  EXPECT_EQ(ERRORS(c.detect_local.cluster_cidrs = {"10.0.0.0/8"}), "");
  EXPECT_EQ(ERRORS(c.detect_local.cluster_cidrs = {"10.0.0.0/8", "fd00::/8"}), "");
  EXPECT_EQ(ERRORS(c.detect_local.cluster_cidrs = {"10.0.0.0/8", "11.0.0.0/8"}),
            path + ": Invalid value: [\"10.0.0.0/8\",\"11.0.0.0/8\"]" + pair);
  EXPECT_EQ(ERRORS(c.detect_local.cluster_cidrs = {"a", "b", "c"}),
            path + ": Invalid value: [\"a\",\"b\",\"c\"]" + pair);
  EXPECT_EQ(ERRORS(c.detect_local.cluster_cidrs = {"10.0.0.0/8", " fd00::/8"}),
            path + "[1]: Invalid value: \" fd00::/8\"" + block);
  EXPECT_EQ(ERRORS(c.detect_local.cluster_cidrs = {""}), path + "[0]: Invalid value: \"\"" + block);
  EXPECT_EQ(ERRORS(c.detect_local_mode = "NodeCIDR"; c.detect_local.cluster_cidrs = {"x"}), "");
}

TEST(LoggingValidation, TheFormatIsTextOrJson) {
  EXPECT_EQ(LOGGING_ERRORS(c.logging.format = "json"), "");
  EXPECT_EQ(LOGGING_ERRORS(c.logging.format = "xml"),
            "logging.format: Invalid value: \"xml\": Unsupported log format");
  EXPECT_EQ(
      LOGGING_ERRORS(c.logging.format = "json"; c.feature_gates["LoggingBetaOptions"] = false),
      "logging.format: Forbidden: Log format json is disabled, see LoggingBetaOptions "
      "feature");
}

TEST(LoggingValidation, NumbersAreInRange) {
  EXPECT_EQ(LOGGING_ERRORS(c.logging.flush_frequency = 0s),
            "logging.flushFrequency: Invalid value: \"0s\": Must be greater than zero");
  EXPECT_EQ(LOGGING_ERRORS(c.logging.verbosity = 2147483648U),
            "logging.verbosity: Invalid value: 2147483648: Must be <= 2147483647");
}

TEST(LoggingValidation, VmoduleIsForTextAndHasPatterns) {
  EXPECT_EQ(LOGGING_ERRORS(c.logging.format = "json"; c.logging.vmodule.push_back({"a", 1})),
            "logging.vmodule: Forbidden: Only supported for text log format");
  EXPECT_EQ(LOGGING_ERRORS(c.logging.vmodule.push_back({"", 1})),
            "logging.vmodule[0]: Required value: File pattern must not be empty");
  EXPECT_EQ(LOGGING_ERRORS(c.logging.vmodule.push_back({"a=b", 1})),
            "logging.vmodule[0]: Invalid value: \"a=b\": File pattern must not contain equal sign "
            "or comma");
}

TEST(LoggingValidation, AlphaOptionsNeedTheirGate) {
  EXPECT_EQ(LOGGING_ERRORS(c.logging.json_split_stream = true),
            "logging.options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled");
  EXPECT_EQ(LOGGING_ERRORS(c.logging.text_info_buffer_size = "4Ki"),
            "logging.options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is "
            "disabled");
  EXPECT_EQ(LOGGING_ERRORS(c.logging.text_split_stream = true;
                           c.feature_gates["LoggingAlphaOptions"] = true),
            "");
}

}  // namespace
}  // namespace config
