#include <gtest/gtest.h>

#include "codec/json.h"
#include "config/decode.h"
#include "config/options.h"

namespace config {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kDefaults = R"(apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 10
  contentType: application/vnd.kubernetes.protobuf
  kubeconfig: ""
  qps: 5
clusterCIDR: ""
configSyncPeriod: 15m0s
conntrack:
  maxPerCore: 32768
  min: 131072
  tcpBeLiberal: false
  tcpCloseWaitTimeout: 1h0m0s
  tcpEstablishedTimeout: 24h0m0s
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ClusterCIDR
enableProfiling: false
healthzBindAddress: 0.0.0.0:10256
hostnameOverride: ""
iptables:
  localhostNodePorts: true
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 1s
  syncPeriod: 30s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 5s
  format: text
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: 127.0.0.1:10249
mode: iptables
nftables:
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: -999
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
)";

Config defaults() {
  Config config;
  config.mode = "iptables";
  config.detect_local_mode = "ClusterCIDR";
  return config;
}

// Does the output have these lines, one behind the other?
bool has(const Config& config, std::string_view lines) {
  return ("\n" + write_yaml(config)).find("\n" + std::string(lines) + "\n") != std::string::npos;
}

TEST(WriteYaml, WritesTheDefaultsWithSortedKeys) { EXPECT_EQ(write_yaml(defaults()), kDefaults); }

TEST(WriteYaml, OnlyTheActiveModeCarriesThePeriods) {
  Config config = defaults();
  config.mode = "ipvs";
  EXPECT_TRUE(has(config,
                  "  minSyncPeriod: 0s\n  syncPeriod: 0s\nipvs:\n  excludeCIDRs: null\n"
                  "  minSyncPeriod: 1s\n  scheduler: \"\"\n  strictARP: false\n"
                  "  syncPeriod: 30s"));
  config.mode = "nftables";
  EXPECT_TRUE(has(config,
                  "nftables:\n  masqueradeAll: false\n  masqueradeBit: 14\n"
                  "  minSyncPeriod: 1s\n  syncPeriod: 30s"));
}

TEST(WriteYaml, MasqueradeAllGoesToTheSectionOfTheMode) {
  Config config = defaults();
  config.masquerade_all = true;
  config.mode = "ipvs";
  EXPECT_TRUE(has(config, "  localhostNodePorts: true\n  masqueradeAll: true"));
  config.mode = "nftables";
  EXPECT_TRUE(has(config, "  localhostNodePorts: true\n  masqueradeAll: false"));
  EXPECT_TRUE(has(config, "nftables:\n  masqueradeAll: true"));
}

TEST(WriteYaml, ListsStandUnderTheirKeyWithoutIndent) {
  Config config = defaults();
  config.node_port_addresses = {"10.0.0.0/8", "fd00::/8"};
  config.ipvs.exclude_cidrs = {"1.2.3.4/32"};
  EXPECT_TRUE(has(config, "nodePortAddresses:\n- 10.0.0.0/8\n- fd00::/8"));
  EXPECT_TRUE(has(config, "  excludeCIDRs:\n  - 1.2.3.4/32"));
}

TEST(WriteYaml, ListsOfMapsStartBehindTheDash) {
  Config config = defaults();
  config.logging.vmodule = {{"run*", 4}, {"codec", 6}};
  EXPECT_TRUE(has(config,
                  "  vmodule:\n  - filePattern: run*\n    verbosity: 4\n"
                  "  - filePattern: codec\n    verbosity: 6"));
}

TEST(WriteYaml, QuotesWhatWouldReadAsSomethingElse) {
  const auto host = [](std::string_view text) {
    Config config = defaults();
    config.hostname_override = text;
    const std::string yaml = write_yaml(config);
    const size_t from = yaml.find("hostnameOverride: ") + 18;
    return yaml.substr(from, yaml.find('\n', from) - from);
  };
  EXPECT_EQ(host("node-1"), "node-1");
  EXPECT_EQ(host("1"), "\"1\"");
  EXPECT_EQ(host("0x1f"), "\"0x1f\"");
  EXPECT_EQ(host("true"), "\"true\"");
  EXPECT_EQ(host("on"), "\"on\"");
  EXPECT_EQ(host("null"), "\"null\"");
  EXPECT_EQ(host("[::]:10256"), "'[::]:10256'");
  EXPECT_EQ(host("it's: so"), "'it''s: so'");
  EXPECT_EQ(host("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(host("* "), "'* '");
}

TEST(WriteYaml, LeavesOutWhatIsOptionalAndEmpty) {
  Config config = defaults();
  EXPECT_FALSE(write_yaml(config).contains("featureGates"));
  EXPECT_FALSE(write_yaml(config).contains("windowsRunAsService"));
  config.feature_gates = {{"B", false}, {"A", true}};
  config.windows_run_as_service = true;
  config.logging.json_split_stream = true;
  EXPECT_TRUE(has(config, "featureGates:\n  A: true\n  B: false"));
  EXPECT_TRUE(has(config, "windowsRunAsService: true"));
  EXPECT_TRUE(has(config, "      splitStream: true"));
}

TEST(WriteYaml, TheIdleTimeOfUdpIsShownWhereItMatters) {
  Config config = defaults();
  EXPECT_FALSE(write_yaml(config).contains("udpIdleTimeout")) << "v1.36 has no such key";
  config.mode = "userspace";
  EXPECT_TRUE(has(config, "udpIdleTimeout: 250ms"));
  config.mode = "iptables";
  config.udp_idle_timeout = 1s;
  EXPECT_TRUE(has(config, "udpIdleTimeout: 1s"));
}

TEST(WriteYaml, WritesFractionsShort) {
  Config config = defaults();
  config.client_connection.qps = 0.1F;
  EXPECT_TRUE(has(config, "  qps: 0.1"));
  config.client_connection.qps = -1;
  EXPECT_TRUE(has(config, "  qps: -1"));
}

TEST(WriteYaml, ReadsBackAsItWas) {
  Config config = defaults();
  config.mode = "nftables";
  config.feature_gates = {{"WatchListClient", false}};
  config.node_port_addresses = {"primary"};
  config.detect_local.cluster_cidrs = {"10.0.0.0/8", "fd00::/8"};
  config.conntrack.tcp_close_wait_timeout = 0s;
  config.min_sync_period = 1500ms;
  config.logging.vmodule = {{"a*", 2}};
  config.healthz_bind_address = "[::]:1";
  const std::string yaml = write_yaml(config);
  auto decoded = file::decode(yaml);
  ASSERT_TRUE(decoded) << decoded.error().text;
  EXPECT_TRUE(decoded->strict_errors.empty());
  EXPECT_EQ(write_yaml(file::to_config(decoded->document)), yaml);
}

TEST(ToDocument, KeepsTheOrderOfTheDeclaration) {
  std::string json;
  codec::json::append(json, to_document(defaults()));
  EXPECT_TRUE(json.starts_with(R"({"kind":"KubeProxyConfiguration","apiVersion":)"
                               R"("kubeproxy.config.k8s.io/v1alpha1","clientConnection":)"))
      << json;
}

}  // namespace
}  // namespace config
