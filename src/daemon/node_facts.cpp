#include "daemon/node_facts.h"

#include <net/if.h>
#include <unistd.h>

#include <algorithm>

#include "backend/iptables/proxier.h"
#include "backend/ipvs/proxier.h"
#include "backend/nftables/proxier.h"
#include "backend/userspace/settings.h"
#include "base/text.h"
#include "config/port_range.h"

namespace proxyd {
namespace {

using net::Cidr;
using net::Family;
using net::IpAddr;

size_t index(Family family) { return static_cast<size_t>(family); }
Family other(Family family) { return family == Family::V4 ? Family::V6 : Family::V4; }

IpAddr loopback(Family family) {
  if (family == Family::V4) return IpAddr::v4(0x7f000001);
  std::array<uint8_t, 16> bytes{};
  bytes[15] = 1;
  return IpAddr::v6(bytes);
}

IpAddr unspecified(Family family) { return family == Family::V4 ? IpAddr::v4(0) : IpAddr::v6({}); }

// The first address of all, and the first of the other family.
void take_addresses(const std::vector<IpAddr>& addresses, NodeFacts& facts) {
  if (addresses.empty()) return;
  facts.primary = addresses.front().family();
  facts.ips[index(facts.primary)] = addresses.front();
  const auto second = std::ranges::find(addresses, other(facts.primary), &IpAddr::family);
  if (second != addresses.end()) facts.ips[index(other(facts.primary))] = *second;
}

std::vector<IpAddr> own_addresses(const std::vector<kernel::InterfaceAddress>& interfaces) {
  std::vector<IpAddr> usable;
  for (const auto& address : interfaces) {
    if (!address.ip.is_loopback() && !address.ip.is_link_local() && address.interface != "lo")
      usable.push_back(address.ip);
  }
  // IPv4 first, as a Node object has it on a dual-stack node unless told otherwise.
  std::ranges::stable_sort(usable, {}, &IpAddr::family);
  return usable;
}

std::vector<Cidr> parse_cidrs(const std::vector<std::string>& texts) {
  std::vector<Cidr> cidrs;
  for (const auto& text : texts) {
    if (const auto cidr = Cidr::parse(text)) cidrs.push_back(*cidr);
  }
  return cidrs;
}

std::optional<Cidr> first_of(const std::vector<Cidr>& cidrs, Family family) {
  const auto found = std::ranges::find(cidrs, family, &Cidr::family);
  return found == cidrs.end() ? std::nullopt : std::optional(*found);
}

bool is_primary_word(const config::Config& config) {
  return config.node_port_addresses == std::vector<std::string>{"primary"};
}

// nodePortAddresses with "primary" expanded.
std::vector<Cidr> node_port_cidrs(const config::Config& config, const NodeFacts& node) {
  if (!is_primary_word(config)) return parse_cidrs(config.node_port_addresses);
  std::vector<Cidr> cidrs;
  for (const auto& ip : node.ips) {
    if (!ip.is_loopback()) cidrs.push_back(Cidr::host(ip));
  }
  return cidrs;
}

bool has(const std::vector<Cidr>& cidrs, Family family) {
  return first_of(cidrs, family).has_value();
}
bool only_other(const std::vector<Cidr>& cidrs, Family family) {
  return !cidrs.empty() && !has(cidrs, family);
}
bool both(const std::vector<Cidr>& cidrs) {
  return has(cidrs, Family::V4) && has(cidrs, Family::V6);
}

}  // namespace

base::Result<std::string> node_name(const config::Config& config) {
  std::string name = config.hostname_override;
  if (name.empty()) {
    std::array<char, 256> buffer{};
    if (::gethostname(buffer.data(), buffer.size() - 1) != 0)
      return base::fail_errno("gethostname");
    name = buffer.data();
  }
  name = base::lower(base::trim(name));
  if (name.empty()) return base::fail(base::ErrorCode::Invalid, "empty hostname is invalid");
  return name;
}

NodeFacts resolve_node(const config::Config& config, const std::string& name,
                       const model::Node* node,
                       const std::vector<kernel::InterfaceAddress>& addresses) {
  NodeFacts facts;
  facts.name = name;
  for (const Family family : net::kFamilies)
    facts.ips[index(family)] = loopback(family);
  take_addresses(node != nullptr ? node->addresses : own_addresses(addresses), facts);
  if (node != nullptr) facts.pod_cidrs = node->pod_cidrs;
  const auto bind = IpAddr::parse(config.bind_address);
  if (bind && !bind->is_unspecified()) {
    facts.primary = bind->family();
    facts.ips[index(bind->family())] = *bind;
  }
  facts.primary_undetermined = facts.ips[index(facts.primary)].is_loopback();
  return facts;
}

base::Result<> check_settings(const config::Config& config) {
  const auto check = [](const std::string& key, const std::string& name) -> base::Result<> {
    const auto odd = [](char c) { return c <= ' ' || c == '/' || c == '"' || c == 0x7f; };
    if (name.size() < IFNAMSIZ && std::ranges::none_of(name, odd)) return {};
    return base::fail(base::ErrorCode::Invalid,
                      key + ": " + base::quote(name) + " is no name that an interface can have");
  };
  TRY(check("detectLocal.bridgeInterface", config.detect_local.bridge_interface));
  return check("detectLocal.interfaceNamePrefix", config.detect_local.interface_name_prefix);
}

bool NodePortRange::names_loopback() const {
  return !everywhere &&
         std::ranges::any_of(cidrs, [](const Cidr& cidr) { return cidr.base().is_loopback(); });
}

NodePortRange node_port_range(const config::Config& config, const NodeFacts& node, Family family) {
  NodePortRange range;
  for (const auto& cidr : node_port_cidrs(config, node)) {
    if (cidr.family() == family) range.cidrs.push_back(cidr);
  }
  const auto matches_all = [](const Cidr& cidr) { return cidr.prefix_length() == 0; };
  range.everywhere = range.cidrs.empty() || std::ranges::any_of(range.cidrs, matches_all);
  return range;
}

std::vector<IpAddr> within(const NodePortRange& range,
                           const std::vector<kernel::InterfaceAddress>& addresses) {
  std::vector<IpAddr> found;
  for (const auto& address : addresses) {
    const bool open = range.everywhere || std::ranges::any_of(range.cidrs, [&](const Cidr& cidr) {
                        return cidr.contains(address.ip);
                      });
    if (open) found.push_back(address.ip);
  }
  return found;
}

plan::LocalTraffic local_traffic(const config::Config& config, const NodeFacts& node,
                                 Family family) {
  plan::LocalTraffic local;
  const auto by_interface = [&](std::string name) {
    local.by = plan::LocalTraffic::By::Interface;
    local.interface = std::move(name);
  };
  const auto by_source = [&](const std::optional<Cidr>& cidr) {
    if (!cidr) return;
    local.by = plan::LocalTraffic::By::Source;
    local.cidr = *cidr;
  };
  if (config.detect_local_mode == "BridgeInterface") {
    by_interface(config.detect_local.bridge_interface);
  } else if (config.detect_local_mode == "InterfaceNamePrefix") {
    by_interface(config.detect_local.interface_name_prefix);
    local.by = plan::LocalTraffic::By::InterfacePrefix;
  } else if (config.detect_local_mode == "NodeCIDR") {
    by_source(first_of(node.pod_cidrs, family));
  } else {
    by_source(first_of(parse_cidrs(config.detect_local.cluster_cidrs), family));
  }
  return local;
}

plan::Context plan_context(const config::Config& config, const NodeFacts& node, Family family) {
  return {.family = family,
          .node_name = node.name,
          .zone = {},
          .node_ip = node.ips[index(family)],
          .external_ips = config::gate_enabled(config, "AllowServiceExternalIPs")};
}

iptables::Settings iptables_settings(const config::Config& config, const NodeFacts& node,
                                     Family family) {
  iptables::Settings settings;
  settings.family = family;
  settings.node_name = node.name;
  settings.node_ip = node.ips[index(family)];
  settings.external_ips = config::gate_enabled(config, "AllowServiceExternalIPs");
  settings.masquerade_mark = 1U << config.iptables.masquerade_bit;
  settings.masquerade_all = config.masquerade_all;
  settings.localhost_node_ports = config.iptables.localhost_node_ports;
  settings.local_traffic = local_traffic(config, node, family);
  NodePortRange range = node_port_range(config, node, family);
  settings.node_ports_everywhere = range.everywhere;
  settings.node_port_cidrs = std::move(range.cidrs);
  return settings;
}

nftables::Settings nftables_settings(const config::Config& config, const NodeFacts& node,
                                     Family family) {
  NodePortRange range = node_port_range(config, node, family);
  return {.options = {.family = family,
                      .masquerade_mark = 1U << config.nftables.masquerade_bit,
                      .masquerade_all = config.masquerade_all,
                      .local_traffic = local_traffic(config, node, family),
                      .node_ports_everywhere = range.everywhere,
                      .localhost_node_ports = family == Family::V4 && range.names_loopback()},
          .node_name = node.name,
          .node_ip = node.ips[index(family)],
          .external_ips = config::gate_enabled(config, "AllowServiceExternalIPs"),
          .node_port_cidrs = std::move(range.cidrs)};
}

ipvs::Settings ipvs_settings(const config::Config& config, const NodeFacts& node, Family family) {
  ipvs::Settings settings{.options = {.family = family,
                                      .scheduler = config.ipvs.scheduler,
                                      .masquerade_mark = 1U << config.ipvs.masquerade_bit,
                                      .masquerade_all = config.masquerade_all,
                                      .local_traffic = local_traffic(config, node, family)},
                          .context = plan_context(config, node, family),
                          .node_port_cidrs = {},
                          .exclude_cidrs = parse_cidrs(config.ipvs.exclude_cidrs)};
  if (settings.options.scheduler.empty()) settings.options.scheduler = "rr";
  NodePortRange range = node_port_range(config, node, family);
  if (!range.everywhere) settings.node_port_cidrs = std::move(range.cidrs);
  return settings;
}

userspace::Settings userspace_settings(const config::Config& config, const NodeFacts& node,
                                       const IpAddr& host, config::Duration drain) {
  const Family family = host.family();
  const auto range = config::parse_port_range(config.port_range).value_or(config::PortRange{});
  const auto bind = IpAddr::parse(config.bind_address);
  return {.context = plan_context(config, node, family),
          .listen = bind && bind->family() == family ? *bind : unspecified(family),
          .host = host,
          .ports = {.first = range.first, .last = range.last},
          .local_traffic = local_traffic(config, node, family),
          .drain = drain};
}

bool leaves_out_loopback(const nftables::Settings& settings) {
  const nftables::Options& options = settings.options;
  if (options.node_ports_everywhere || options.localhost_node_ports) return false;
  return std::ranges::any_of(settings.node_port_cidrs, [&](const Cidr& cidr) {
    return cidr.contains(loopback(options.family));
  });
}

std::vector<ConfigurationWarning> check_families(const config::Config& config,
                                                 const NodeFacts& node, bool dual_stack) {
  std::vector<ConfigurationWarning> warnings;
  const std::string mine(net::name(node.primary));
  const std::string others(net::name(other(node.primary)));
  const std::string cluster = "cluster is " + mine + (dual_stack ? "-primary" : "-only");
  const auto clusters = parse_cidrs(config.detect_local.cluster_cidrs);
  const auto node_ports = node_port_cidrs(config, node);
  const auto excluded = parse_cidrs(config.ipvs.exclude_cidrs);

  if (config.mode == "userspace") {
    if (!config.node_port_addresses.empty())
      warnings.push_back(
          {"nodePortAddresses has no effect in mode userspace; NodePort connections will be "
           "accepted on all local IPs"});
  } else if (config.node_port_addresses.empty()) {
    warnings.push_back(
        {"nodePortAddresses is unset; NodePort connections will be accepted on all local IPs. "
         "Consider using `--nodeport-addresses primary`"});
  } else if (!is_primary_word(config)) {
    const bool looks_dual =
        both(clusters) || both(node_ports) || both(excluded) || both(node.pod_cidrs);
    if (looks_dual && !node_ports.empty() && !has(node_ports, other(node.primary))) {
      warnings.push_back({"cluster appears to be dual-stack but nodePortAddresses contains only " +
                          mine + " addresses; NodePort connections will be accepted on all local " +
                          others + " IPs"});
    } else if (only_other(node_ports, node.primary)) {
      warnings.push_back({"cluster appears to be " + mine +
                          "-primary but nodePortAddresses contains only " + others +
                          " addresses; NodePort connections will be accepted on all local " + mine +
                          " IPs"});
    }
  }
  if (only_other(clusters, node.primary)) {
    warnings.push_back({cluster + " but clusterCIDRs contains only " + others + " addresses",
                        !dual_stack && config.detect_local_mode == "ClusterCIDR"});
  }
  if (only_other(node.pod_cidrs, node.primary)) {
    warnings.push_back({cluster + " but node.spec.podCIDRs contains only " + others + " addresses",
                        config.detect_local_mode == "NodeCIDR"});
  }
  if (dual_stack) return warnings;
  if (only_other(excluded, node.primary)) {
    warnings.push_back({cluster + " but ipvs.excludeCIDRs contains only " + others + " addresses"});
  }
  const auto wrong_bind = [&](const std::string& address) {
    const size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const auto ip = IpAddr::parse(host);
    return ip && !ip->is_unspecified() && ip->family() != node.primary;
  };
  if (wrong_bind(config.healthz_bind_address))
    warnings.push_back({cluster + " but healthzBindAddress is " + others});
  if (wrong_bind(config.metrics_bind_address))
    warnings.push_back({cluster + " but metricsBindAddress is " + others});
  return warnings;
}

}  // namespace proxyd
