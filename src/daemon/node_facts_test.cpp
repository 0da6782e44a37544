#include "daemon/node_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/iptables/proxier.h"
#include "backend/ipvs/proxier.h"
#include "backend/nftables/proxier.h"
#include "backend/userspace/settings.h"
#include "daemon/node_setup.h"
#include "support/builders.h"

namespace proxyd {
namespace {

using build::cidr;
using build::ip;
using net::Family;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

config::Config defaults() {
  config::Config config;
  config.mode = "iptables";
  config.detect_local_mode = "ClusterCIDR";
  return config;
}
model::Node node(std::initializer_list<const char*> addresses) {
  model::Node made{.name = "node1"};
  for (const auto* text : addresses)
    made.addresses.push_back(ip(text));
  return made;
}
NodeFacts facts(const config::Config& config, const model::Node& object) {
  return resolve_node(config, "node1", &object, {});
}
const net::IpAddr& v4(const NodeFacts& f) { return f.ips[0]; }
const net::IpAddr& v6(const NodeFacts& f) { return f.ips[1]; }

TEST(NodeFacts, TheFirstAddressOfTheNodeIsThePrimaryOne) {
  const auto f = facts(defaults(), node({"fd00::1", "172.31.0.11", "172.31.0.12"}));
  EXPECT_EQ(f.primary, Family::V6);
  EXPECT_EQ(v6(f), ip("fd00::1"));
  EXPECT_EQ(v4(f), ip("172.31.0.11"));
}

TEST(NodeFacts, WithoutANodeObjectTheInterfacesTell) {
  const auto f = resolve_node(defaults(), "node1", nullptr,
                              {{"lo", ip("127.0.0.1")},
                               {"lo", ip("192.168.77.1")},
                               {"eth0", ip("fe80::1")},
                               {"eth0", ip("fd00::1")},
                               {"eth0", ip("172.31.0.11")}});
  EXPECT_EQ(f.primary, Family::V4);
  EXPECT_EQ(v4(f), ip("172.31.0.11"));
  EXPECT_EQ(v6(f), ip("fd00::1"));
}

TEST(NodeFacts, ASpecificBindAddressReplacesTheNodeIp) {
  auto config = defaults();
  config.bind_address = "10.9.9.9";
  const auto f = facts(config, node({"172.31.0.11"}));
  EXPECT_EQ(v4(f), ip("10.9.9.9"));
}

TEST(NodeFacts, NothingKnownIsLoopback) {
  const auto f = facts(defaults(), node({}));
  EXPECT_TRUE(f.primary_undetermined);
  EXPECT_EQ(v4(f), ip("127.0.0.1"));
}

TEST(NodePorts, OpenEverywhereWithoutACidrOfTheFamily) {
  auto config = defaults();
  EXPECT_TRUE(node_port_range(config, facts(config, node({})), Family::V4).everywhere);
  config.node_port_addresses = {"172.31.0.0/24"};
  EXPECT_FALSE(node_port_range(config, facts(config, node({})), Family::V4).everywhere);
  EXPECT_TRUE(node_port_range(config, facts(config, node({})), Family::V6).everywhere);
  config.node_port_addresses = {"172.31.0.0/24", "0.0.0.0/0"};
  EXPECT_TRUE(node_port_range(config, facts(config, node({})), Family::V4).everywhere);
}

TEST(NodePorts, PrimaryMeansTheNodeIps) {
  auto config = defaults();
  config.node_port_addresses = {"primary"};
  const auto f = facts(config, node({"172.31.0.11"}));
  EXPECT_THAT(node_port_range(config, f, Family::V4).cidrs, ElementsAre(cidr("172.31.0.11/32")));
  EXPECT_TRUE(node_port_range(config, f, Family::V6).everywhere);
}

TEST(NodePorts, LocalhostNeedsIPv4TheSettingAndLoopback) {
  auto config = defaults();
  const auto f = facts(config, node({}));
  EXPECT_TRUE(iptables_settings(config, f, Family::V4).serves_localhost());
  EXPECT_FALSE(iptables_settings(config, f, Family::V6).serves_localhost());
  config.node_port_addresses = {"172.31.0.0/24"};
  EXPECT_FALSE(iptables_settings(config, f, Family::V4).serves_localhost());
  config.node_port_addresses = {"127.0.0.1/32"};
  EXPECT_TRUE(iptables_settings(config, f, Family::V4).serves_localhost());
  config.iptables.localhost_node_ports = false;
  EXPECT_FALSE(iptables_settings(config, f, Family::V4).serves_localhost());
}

TEST(NodePorts, OfModeNftablesAreOnLocalhostOnlyIfLoopbackIsNamed) {
  auto config = defaults();
  const auto open = [&](std::vector<std::string> addresses, Family family) {
    config.node_port_addresses = std::move(addresses);
    return nftables_settings(config, facts(config, node({"172.31.0.11"})), family);
  };
  const auto on_localhost = [&](std::vector<std::string> addresses) {
    return open(std::move(addresses), Family::V4).options.localhost_node_ports;
  };
  EXPECT_TRUE(on_localhost({"127.0.0.0/8"}));
  EXPECT_TRUE(on_localhost({"172.31.0.0/24", "127.0.0.1/32"}));
  EXPECT_FALSE(on_localhost({"primary"}));
  EXPECT_FALSE(on_localhost({"0.0.0.0/0"}));
  EXPECT_FALSE(on_localhost({"127.0.0.0/8", "0.0.0.0/0"}));
  EXPECT_FALSE(on_localhost({"0.0.0.0/1"})) << "has it inside, but does not name it";
  EXPECT_FALSE(open({"::1/128"}, Family::V6).options.localhost_node_ports);
  EXPECT_FALSE(leaves_out_loopback(open({"127.0.0.0/8"}, Family::V4)));
  EXPECT_FALSE(leaves_out_loopback(open({"172.31.0.0/24"}, Family::V4)));
  EXPECT_FALSE(leaves_out_loopback(open({"0.0.0.0/0", "::/0"}, Family::V6)));
  EXPECT_TRUE(leaves_out_loopback(open({"0.0.0.0/1"}, Family::V4)));
  EXPECT_TRUE(leaves_out_loopback(open({"::1/128"}, Family::V6)));
}

TEST(Settings, OfModeNftablesComeFromItsSection) {
  auto config = defaults();
  config.nftables.masquerade_bit = 5;
  config.masquerade_all = true;
  config.node_port_addresses = {"172.31.0.0/24"};
  config.detect_local.cluster_cidrs = {"10.244.0.0/16"};
  config.feature_gates["AllowServiceExternalIPs"] = false;
  const auto settings = nftables_settings(config, facts(config, node({"172.31.0.11"})), Family::V4);
  EXPECT_EQ(settings.options.masquerade_mark, 0x20U);
  EXPECT_TRUE(settings.options.masquerade_all);
  EXPECT_EQ(settings.options.local_traffic.cidr, cidr("10.244.0.0/16"));
  EXPECT_FALSE(settings.options.node_ports_everywhere);
  EXPECT_THAT(settings.node_port_cidrs, ElementsAre(cidr("172.31.0.0/24")));
  EXPECT_EQ(settings.node_ip, ip("172.31.0.11"));
  EXPECT_FALSE(settings.external_ips);
}

TEST(Settings, OfModeIpvsComeFromItsSectionAndFromThatOfIptables) {
  auto config = defaults();
  config.ipvs.masquerade_bit = 7;
  config.masquerade_all = true;
  config.ipvs.exclude_cidrs = {"10.9.0.0/16", "fd00:9::/64"};
  config.detect_local.cluster_cidrs = {"10.244.0.0/16"};
  auto settings = ipvs_settings(config, facts(config, node({"172.31.0.11"})), Family::V4);
  EXPECT_EQ(settings.options.scheduler, "rr");
  EXPECT_EQ(settings.options.masquerade_mark, 0x80U);
  EXPECT_TRUE(settings.options.masquerade_all);
  EXPECT_EQ(settings.options.local_traffic.cidr, cidr("10.244.0.0/16"));
  EXPECT_THAT(settings.node_port_cidrs, ElementsAre());
  EXPECT_THAT(settings.exclude_cidrs, ElementsAre(cidr("10.9.0.0/16"), cidr("fd00:9::/64")));
  EXPECT_EQ(settings.context.node_ip, ip("172.31.0.11"));
  config.ipvs.scheduler = "mh";
  config.node_port_addresses = {"172.31.0.0/24"};
  settings = ipvs_settings(config, facts(config, node({"172.31.0.11"})), Family::V4);
  EXPECT_EQ(settings.options.scheduler, "mh");
  EXPECT_THAT(settings.node_port_cidrs, ElementsAre(cidr("172.31.0.0/24")));
}

TEST(Settings, OfModeUserspaceListenWhereTheyAreBound) {
  auto config = defaults();
  config.mode = "userspace";
  config.port_range = "300-2000";
  config.detect_local.cluster_cidrs = {"10.244.0.0/16"};
  const auto f = facts(config, node({"172.31.0.11"}));
  auto settings = userspace_settings(config, f, ip("172.31.0.12"), std::chrono::seconds(5));
  EXPECT_EQ(settings.context.node_ip, ip("172.31.0.11"));
  EXPECT_EQ(settings.host, ip("172.31.0.12"));
  EXPECT_EQ(settings.listen, ip("0.0.0.0"));
  EXPECT_EQ(settings.ports.first, 300);
  EXPECT_EQ(settings.ports.last, 2000);
  EXPECT_EQ(settings.local_traffic.cidr, cidr("10.244.0.0/16"));
  EXPECT_EQ(settings.drain, std::chrono::seconds(5));
  config.bind_address = "172.31.0.12";
  EXPECT_EQ(userspace_settings(config, f, ip("172.31.0.12"), {}).listen, ip("172.31.0.12"));
  EXPECT_EQ(userspace_settings(config, f, ip("fd00::1"), {}).listen, ip("::")) << "other family";
}

TEST(LocalTraffic, IsRecognisedAsConfigured) {
  auto config = defaults();
  config.detect_local.cluster_cidrs = {"10.244.0.0/16", "fd00:244::/64"};
  const auto f = facts(config, node({}));
  EXPECT_EQ(local_traffic(config, f, Family::V6).cidr, cidr("fd00:244::/64"));
  config.detect_local_mode = "InterfaceNamePrefix";
  config.detect_local.interface_name_prefix = "veth";
  EXPECT_EQ(local_traffic(config, f, Family::V4).interface, "veth");
  EXPECT_EQ(local_traffic(config, f, Family::V4).by, plan::LocalTraffic::By::InterfacePrefix);
  config.detect_local_mode = "NodeCIDR";
  EXPECT_EQ(local_traffic(config, f, Family::V4).by, plan::LocalTraffic::By::Nothing);
}

TEST(Settings, InterfaceNamesMustBeSuchAsTheKernelHasThem) {
  auto config = defaults();
  EXPECT_TRUE(check_settings(config));
  config.detect_local.bridge_interface = "cni0";
  EXPECT_TRUE(check_settings(config));
  for (const auto* name : {"a b", "a\nb", "a/b", "sixteen-letters-"}) {
    config.detect_local.bridge_interface = name;
    EXPECT_FALSE(check_settings(config)) << name;
  }
}

std::vector<std::string> texts(const config::Config& config, const NodeFacts& f, bool dual) {
  std::vector<std::string> out;
  for (const auto& warning : check_families(config, f, dual))
    out.push_back((warning.fatal ? "fatal: " : "") + warning.text);
  return out;
}

TEST(ConfigurationWarnings, AreThoseOfKubeProxy) {
  auto config = defaults();
  const auto f = facts(config, node({"172.31.0.11"}));
  EXPECT_THAT(texts(config, f, true),
              ElementsAre("nodePortAddresses is unset; NodePort connections will be accepted on "
                          "all local IPs. Consider using `--nodeport-addresses primary`"));
  config.node_port_addresses = {"primary"};
  EXPECT_THAT(texts(config, f, true), IsEmpty());
  config.detect_local.cluster_cidrs = {"fd00:244::/64"};
  EXPECT_THAT(texts(config, f, true),
              ElementsAre("cluster is IPv4-primary but clusterCIDRs contains only IPv6 addresses"));
  EXPECT_THAT(
      texts(config, f, false),
      ElementsAre("fatal: cluster is IPv4-only but clusterCIDRs contains only IPv6 addresses"));
  config.detect_local.cluster_cidrs = {"10.244.0.0/16", "fd00:244::/64"};
  config.node_port_addresses = {"172.31.0.0/24"};
  EXPECT_THAT(
      texts(config, f, true),
      ElementsAre(
          "cluster appears to be dual-stack but nodePortAddresses contains only IPv4 addresses; "
          "NodePort connections will be accepted on all local IPv6 IPs"));
  config = defaults();
  config.node_port_addresses = {"primary"};
  config.metrics_bind_address = "[::1]:10249";
  EXPECT_THAT(texts(config, f, false),
              ElementsAre("cluster is IPv4-only but metricsBindAddress is IPv6"));
}

TEST(ConfigurationWarnings, InModeUserspaceNodePortsAreOpenEverywhere) {
  auto config = defaults();
  config.mode = "userspace";
  const auto f = facts(config, node({"172.31.0.11"}));
  EXPECT_THAT(texts(config, f, true), IsEmpty());
  config.node_port_addresses = {"primary"};
  EXPECT_THAT(texts(config, f, true),
              ElementsAre("nodePortAddresses has no effect in mode userspace; NodePort connections "
                          "will be accepted on all local IPs"));
}

TEST(Conntrack, MaxScalesWithCoresUnderACeiling) {
  config::Conntrack conntrack;
  EXPECT_EQ(conntrack_max(conntrack, 2), 131072);
  EXPECT_EQ(conntrack_max(conntrack, 8), 262144);
  EXPECT_EQ(conntrack_max(conntrack, 64), 1048576);
  conntrack.min = 2'000'000;
  EXPECT_EQ(conntrack_max(conntrack, 2), 2'000'000);
  EXPECT_EQ(conntrack_max(conntrack, 64), 1048576);
  conntrack.max_per_core = 0;
  EXPECT_EQ(conntrack_max(conntrack, 64), 0);
}

TEST(Conntrack, ZeroMeansLeaveAlone) {
  config::Conntrack conntrack{.max_per_core = 0,
                              .tcp_established_timeout = {},
                              .tcp_close_wait_timeout = {},
                              .tcp_be_liberal = true,
                              .udp_timeout = std::chrono::milliseconds(30'900)};
  EXPECT_THAT(conntrack_sysctls(conntrack, 4),
              ElementsAre(Pair("net/netfilter/nf_conntrack_tcp_be_liberal", 1),
                          Pair("net/netfilter/nf_conntrack_udp_timeout", 30)));
}

}  // namespace
}  // namespace proxyd
