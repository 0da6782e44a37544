#include "config/decode.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace config::file {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kHead =
    "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

base::Result<Decoded> decode_body(std::string_view body) {
  return decode(std::string(kHead) + std::string(body));
}

// The document of a body that must be fine but for what a strict reader says.
Document document(std::string_view body) {
  auto decoded = decode_body(body);
  EXPECT_TRUE(decoded) << body << ": " << decoded.error().text;
  return decoded ? decoded->document : Document{};
}

// Its configuration after defaulting.
Config config_of(std::string_view body) { return to_config(document(body)); }

std::string strict_errors(std::string_view body) {
  const auto decoded = decode_body(body);
  return decoded ? base::join(decoded->strict_errors, ", ") : "fatal: " + decoded.error().text;
}

std::string error_of(std::string_view text) {
  const auto decoded = decode(text);
  return decoded ? "" : decoded.error().text;
}

std::string body_error(std::string_view body) {
  return error_of(std::string(kHead) + std::string(body));
}

TEST(Decode, ReadsEveryKindOfValue) {
  const Document read = document(
      "featureGates: {WatchListClient: false}\n"
      "clientConnection: {kubeconfig: /k, qps: 2.5, burst: 7}\n"
      "logging: {verbosity: 4, flushFrequency: 1s, vmodule: [{filePattern: run*, verbosity: 6}]}\n"
      "mode: ipvs\n"
      "ipvs: {excludeCIDRs: [10.0.0.0/8], strictARP: true, tcpTimeout: 1m}\n"
      "oomScoreAdj: -5\n"
      "clusterCIDR: 10.0.0.0/8,fd00::/8\n");
  EXPECT_EQ(read.feature_gates.at("WatchListClient"), false);
  EXPECT_EQ(read.client_connection.kubeconfig, "/k");
  EXPECT_EQ(read.client_connection.qps, 2.5F);
  EXPECT_EQ(read.client_connection.burst, 7);
  EXPECT_EQ(read.logging.verbosity, 4U);
  EXPECT_EQ(read.logging.flush_frequency.value, 1s);
  EXPECT_EQ(read.logging.vmodule.at(0).file_pattern, "run*");
  EXPECT_EQ(read.mode, "ipvs");
  EXPECT_EQ(read.ipvs.exclude_cidrs->at(0), "10.0.0.0/8");
  EXPECT_TRUE(read.ipvs.strict_arp);
  EXPECT_EQ(read.ipvs.tcp_timeout, 1min);
  EXPECT_EQ(read.oom_score_adj, -5);
  EXPECT_EQ(read.cluster_cidr, "10.0.0.0/8,fd00::/8");
}

TEST(Decode, ReadsJsonToo) {
  const auto decoded = decode(
      R"( {"kind":"KubeProxyConfiguration","apiVersion":"kubeproxy.config.k8s.io/v1alpha1",
           "mode":"nftables","conntrack":{"min":0}})");
  ASSERT_TRUE(decoded) << decoded.error().text;
  EXPECT_EQ(decoded->document.mode, "nftables");
  EXPECT_EQ(decoded->document.conntrack.min, 0);
}

TEST(Decode, NullIsTheSameAsAbsent) {
  const Config config = config_of("mode: null\noomScoreAdj: null\nconntrack: null\nipvs: ~\n");
  EXPECT_EQ(config.oom_score_adj, -999);
  EXPECT_EQ(config.conntrack.min, 131072);
}

TEST(Decode, UnknownFieldsArePassedOverAndTold) {
  EXPECT_EQ(strict_errors(""), "");
  EXPECT_EQ(strict_errors("ipvs: {bar: 1}\nfoo: 2\n"),
            "unknown field \"foo\", unknown field \"ipvs.bar\"");
  EXPECT_EQ(strict_errors("Mode: ipvs\n"), "unknown field \"Mode\"");
  EXPECT_EQ(strict_errors("logging: {vmodule: [{filePattern: a}, {x: 1}]}\n"),
            "unknown field \"logging.vmodule[1].x\"");
  EXPECT_EQ(document("Mode: ipvs\nmode: nftables\n").mode, "nftables");
}

TEST(Decode, OfRepeatedKeysTheLastCounts) {
  EXPECT_EQ(strict_errors("mode: ipvs\nfoo: 1\nmode: nftables\n"),
            "yaml: unmarshal errors:\n  line 5: key \"mode\" already set in map, unknown field "
            "\"foo\"");
  EXPECT_EQ(document("mode: ipvs\nmode: nftables\n").mode, "nftables");
}

TEST(Decode, RepeatedKeysInJsonAreNamedByTheirPath) {
  const auto decoded = decode(
      R"({"kind":"KubeProxyConfiguration","apiVersion":"kubeproxy.config.k8s.io/v1alpha1",
          "ipvs":{"scheduler":"rr","scheduler":"wrr"}})");
  ASSERT_TRUE(decoded) << decoded.error().text;
  EXPECT_EQ(base::join(decoded->strict_errors, ", "), "duplicate field \"ipvs.scheduler\"");
  EXPECT_EQ(decoded->document.ipvs.scheduler, "wrr");
}

TEST(Decode, WrongTypesAreFatalInTheWordsOfGo) {
  const auto type_error = [](std::string_view body) {
    constexpr std::string_view kPrefix = "json: cannot unmarshal ";
    const std::string error = body_error(body);
    EXPECT_TRUE(error.starts_with(kPrefix)) << error;
    return error.substr(std::min(kPrefix.size(), error.size()));
  };
  EXPECT_EQ(type_error("oomScoreAdj: abc"),
            "string into Go struct field KubeProxyConfiguration.oomScoreAdj of type int32");
  EXPECT_EQ(type_error("oomScoreAdj: 1.5"),
            "number 1.5 into Go struct field KubeProxyConfiguration.oomScoreAdj of type int32");
  EXPECT_EQ(type_error("oomScoreAdj: 3000000000"),
            "number 3000000000 into Go struct field KubeProxyConfiguration.oomScoreAdj of type "
            "int32");
  EXPECT_EQ(type_error("conntrack: {maxPerCore: yes}"),
            "bool into Go struct field KubeProxyConfiguration.conntrack.maxPerCore of type int32");
  EXPECT_EQ(type_error("conntrack: 1"),
            "number into Go struct field KubeProxyConfiguration.conntrack of type "
            "v1alpha1.KubeProxyConntrackConfiguration");
  EXPECT_EQ(type_error("bindAddress: 1"),
            "number into Go struct field KubeProxyConfiguration.bindAddress of type string");
  EXPECT_EQ(type_error("mode: [a]"),
            "array into Go struct field KubeProxyConfiguration.mode of type v1alpha1.ProxyMode");
  EXPECT_EQ(type_error("enableProfiling: \"true\""),
            "string into Go struct field KubeProxyConfiguration.enableProfiling of type bool");
  EXPECT_EQ(
      type_error("nodePortAddresses: 10.0.0.0/8"),
      "string into Go struct field KubeProxyConfiguration.nodePortAddresses of type []string");
  EXPECT_EQ(type_error("nodePortAddresses: [1]"),
            "number into Go struct field KubeProxyConfiguration.nodePortAddresses of type string");
  EXPECT_EQ(type_error("featureGates: {A: 1}"),
            "number into Go struct field KubeProxyConfiguration.featureGates of type bool");
  EXPECT_EQ(type_error("featureGates: [A]"),
            "array into Go struct field KubeProxyConfiguration.featureGates of type "
            "map[string]bool");
  EXPECT_EQ(type_error("logging: {verbosity: -1}"),
            "number -1 into Go struct field KubeProxyConfiguration.logging.verbosity of type "
            "v1.VerbosityLevel");
  EXPECT_EQ(type_error("clientConnection: {qps: x}"),
            "string into Go struct field KubeProxyConfiguration.clientConnection.qps of type "
            "float32");
  EXPECT_EQ(type_error("configSyncPeriod: 5"), "number into Go value of type string");
  EXPECT_EQ(type_error("logging: {flushFrequency: true}"),
            "bool into Go value of type time.Duration");
}

TEST(Decode, BadDurationsAreFatalInTheWordsOfGo) {
  EXPECT_EQ(body_error("configSyncPeriod: 5x"), "time: unknown unit \"x\" in duration \"5x\"");
  EXPECT_EQ(body_error("configSyncPeriod: \"\""), "time: invalid duration \"\"");
  EXPECT_EQ(body_error("iptables: {syncPeriod: \"30\"}"), "time: missing unit in duration \"30\"");
}

TEST(Decode, OnlyTheFlushFrequencyMayBeANumberOfNanoseconds) {
  EXPECT_EQ(document("logging: {flushFrequency: 7000000000}").logging.flush_frequency.value, 7s);
}

TEST(Decode, BufferSizesAreQuantities) {
  const auto size = [](std::string_view text) {
    return document("logging: {options: {json: {infoBufferSize: " + std::string(text) + "}}}")
        .logging.options.json.info_buffer_size.text;
  };
  EXPECT_EQ(size("4Ki"), "4Ki");
  EXPECT_EQ(size("\"0\""), "0");
  EXPECT_EQ(size("0"), "0");
  EXPECT_EQ(size("512"), "512");
  EXPECT_EQ(body_error("logging: {options: {text: {infoBufferSize: 4Xi}}}"),
            "unable to parse quantity's suffix");
}

TEST(Decode, NeedsKindAndVersion) {
  EXPECT_EQ(error_of(""), "Object 'Kind' is missing in ''");
  EXPECT_EQ(error_of("mode: ipvs"), "Object 'Kind' is missing in 'mode: ipvs'");
  EXPECT_EQ(error_of("kind: KubeProxyConfiguration"),
            "Object 'apiVersion' is missing in 'kind: KubeProxyConfiguration'");
  EXPECT_EQ(error_of("kind: Foo\napiVersion: kubeproxy.config.k8s.io/v1alpha1"),
            "no kind \"Foo\" is registered for version \"kubeproxy.config.k8s.io/v1alpha1\" in "
            "scheme \"kube-proxy configuration\"");
  EXPECT_EQ(error_of("kind: KubeProxyConfiguration\napiVersion: v1"),
            "no kind \"KubeProxyConfiguration\" is registered for version \"v1\" in scheme "
            "\"kube-proxy configuration\"");
  EXPECT_TRUE(error_of("[1]").starts_with("couldn't get version/kind; json parse error: "));
  EXPECT_TRUE(error_of("kind: 1").ends_with(
      "cannot unmarshal number into Go struct field .kind of type string"));
}

TEST(Decode, TellsWhereTheSyntaxIsWrong) {
  EXPECT_TRUE(error_of("a: [\n").starts_with("error converting YAML to JSON: yaml: line "));
  EXPECT_TRUE(error_of("{").starts_with("couldn't get version/kind; json parse error: line 1"));
}

TEST(Defaults, OfAnEmptyFile) {
  const Config config = config_of("");
  EXPECT_EQ(config.bind_address, "0.0.0.0");
  EXPECT_EQ(config.healthz_bind_address, "0.0.0.0:10256");
  EXPECT_EQ(config.metrics_bind_address, "127.0.0.1:10249");
  EXPECT_EQ(config.client_connection.qps, 5);
  EXPECT_EQ(config.client_connection.burst, 10);
  EXPECT_EQ(config.logging.format, "text");
  EXPECT_EQ(config.logging.flush_frequency, 5s);
  EXPECT_EQ(config.sync_period, 30s);
  EXPECT_EQ(config.min_sync_period, 1s);
  EXPECT_EQ(config.iptables.masquerade_bit, 14);
  EXPECT_TRUE(config.iptables.localhost_node_ports);
  EXPECT_EQ(config.conntrack.tcp_established_timeout, 24h);
  EXPECT_EQ(config.config_sync_period, 15min);
  EXPECT_TRUE(config.detect_local.cluster_cidrs.empty());
}

TEST(Defaults, AddressesFollowTheFamilyOfTheBindAddress) {
  const auto addresses = [](std::string_view body) {
    const Config config = config_of(body);
    return config.healthz_bind_address + " " + config.metrics_bind_address;
  };
  EXPECT_EQ(addresses("bindAddress: \"::\""), "[::]:10256 [::1]:10249");
  EXPECT_EQ(addresses("bindAddress: nonsense"), "[::]:10256 [::1]:10249");
  EXPECT_EQ(addresses("bindAddress: 010.0.0.1"), "0.0.0.0:10256 127.0.0.1:10249");
  EXPECT_EQ(addresses("healthzBindAddress: 1.2.3.4\nmetricsBindAddress: fd00::1"),
            "1.2.3.4:10256 [fd00::1]:10249");
  EXPECT_EQ(addresses("healthzBindAddress: 1.2.3.4:5\nmetricsBindAddress: x"), "1.2.3.4:5 x");
}

TEST(Defaults, PeriodsComeFromTheSectionOfTheMode) {
  const auto periods = [](std::string_view mode) {
    const Config config = config_of(
        "iptables: {syncPeriod: 11s, minSyncPeriod: 0s}\n"
        "ipvs: {syncPeriod: 12s}\n"
        "nftables: {syncPeriod: 13s, minSyncPeriod: 3s}\nmode: " +
        std::string(mode));
    return std::pair(config.sync_period / 1s, config.min_sync_period / 1s);
  };
  EXPECT_EQ(periods("\"\""), std::pair(11L, 1L));
  EXPECT_EQ(periods("iptables"), std::pair(11L, 1L));
  EXPECT_EQ(periods("ipvs"), std::pair(12L, 0L));
  EXPECT_EQ(periods("nftables"), std::pair(13L, 3L));
  EXPECT_EQ(periods("userspace"), std::pair(11L, 1L));
}

TEST(Defaults, AMinimumThatNobodyWroteHoldsUpModeIptablesOnly) {
  const auto gap = [](const std::string& body) {
    return min_sync_gap(config_of(body + "\nmode: nftables"));
  };
  EXPECT_EQ(gap(""), 10ms);
  EXPECT_EQ(gap("nftables: {syncPeriod: 5s}"), 10ms);
  EXPECT_EQ(gap("nftables: {minSyncPeriod: 0s}"), 10ms) << "kubeadm writes 0s where nobody chose";
  EXPECT_EQ(gap("iptables: {minSyncPeriod: 2s}"), 10ms) << "another mode's";
  EXPECT_EQ(gap("nftables: {minSyncPeriod: 1s}"), 1s) << "the default, but written";
  EXPECT_EQ(gap("nftables: {minSyncPeriod: 3s}"), 3s);
  EXPECT_EQ(config_of("mode: nftables").min_sync_period, 1s) << "what is shown stays the same";
  EXPECT_EQ(min_sync_gap(config_of("mode: iptables")), 1s);
  EXPECT_EQ(min_sync_gap(config_of("mode: ipvs")), 10ms);
  EXPECT_EQ(min_sync_gap(config_of("ipvs: {minSyncPeriod: 2s}\nmode: ipvs")), 2s);
  EXPECT_EQ(min_sync_gap(config_of("mode: userspace")), 10ms);
  EXPECT_EQ(min_sync_gap(config_of("iptables: {minSyncPeriod: 2s}\nmode: userspace")), 2s);
}

TEST(Defaults, AnIdleTimeOfZeroIsTheDefault) {
  EXPECT_EQ(config_of("").udp_idle_timeout, 250ms);
  EXPECT_EQ(config_of("udpIdleTimeout: 0s").udp_idle_timeout, 250ms);
  EXPECT_EQ(config_of("udpIdleTimeout: 1m").udp_idle_timeout, 60s);
}

TEST(Defaults, MasqueradeAllComesFromTheSectionOfTheMode) {
  EXPECT_TRUE(config_of("iptables: {masqueradeAll: true}\nmode: ipvs").masquerade_all);
  EXPECT_FALSE(config_of("iptables: {masqueradeAll: true}\nmode: nftables").masquerade_all);
  EXPECT_TRUE(config_of("nftables: {masqueradeAll: true}\nmode: nftables").masquerade_all);
}

TEST(Defaults, ZeroIsKeptWhereItMeansLeaveAlone) {
  const Config config = config_of("conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s}");
  EXPECT_EQ(config.conntrack.max_per_core, 0);
  EXPECT_EQ(config.conntrack.tcp_established_timeout, 0s);
  EXPECT_EQ(config_of("clientConnection: {qps: 0, burst: 0}").client_connection.qps, 5);
}

TEST(Defaults, TheBitOfIptablesServesIpvsToo) {
  EXPECT_EQ(config_of("iptables: {masqueradeBit: 7}").ipvs.masquerade_bit, 7);
}

}  // namespace
}  // namespace config::file
