#include "backend/userspace/portals.h"

#include <algorithm>

#include "base/text.h"

namespace userspace {
namespace {

using iptables::Jump;
using iptables::Table;
using plan::PortPlan;
using Kind = Portal::Kind;

constexpr std::string_view kNotFromABridge = " -m physdev ! --physdev-is-in";
constexpr std::string_view kToThisNode = " -m addrtype --dst-type LOCAL";

struct ChainFacts {
  Table table;
  std::string_view name;
};
constexpr std::array<ChainFacts, kPortalChains> kChains{{
    {Table::Nat, "KUBE-PORTALS-CONTAINER"},
    {Table::Nat, "KUBE-PORTALS-HOST"},
    {Table::Nat, "KUBE-NODEPORT-CONTAINER"},
    {Table::Nat, "KUBE-NODEPORT-HOST"},
    {Table::Filter, "KUBE-NODEPORT-NON-LOCAL"},
}};

// "-A CHAIN -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80"
void append_match(std::string& out, PortalChain chain, std::string_view service,
                  const Portal& portal, uint16_t port) {
  const std::string_view protocol = net::lower_name(portal.protocol);
  out += "-A ";
  out += name(chain);
  if (portal.kind != Kind::NodePort) {
    out += " -d ";
    net::Cidr::host(portal.ip).append_to(out);
  }
  out += " -p ";
  out += protocol;
  // Kubernetes names need no escapes inside the quotes.
  out += " -m comment --comment \"";
  out += service;
  out += "\" -m ";
  out += protocol;
  out += " --dport ";
  base::append_number(out, port);
}

void append_dnat(std::string& out, const net::IpAddr& ip, uint16_t port) {
  out += " -j DNAT --to-destination ";
  net::append_endpoint(out, ip, port);
  out += '\n';
}

// Writes the rules of one portal.
class PortalRules {
 public:
  PortalRules(const PortalOptions& options, std::string_view service, const Portal& portal,
              PortalLines& out)
      : options_(options), service_(service), portal_(portal), out_(out) {}

  void container(PortalChain chain, std::string_view condition = {}) {
    std::string& out = begin(chain, portal_.port, condition);
    if (!options_.listen.is_unspecified())
      return append_dnat(out, options_.listen, portal_.proxy_port);
    out += " -j REDIRECT --to-ports ";
    base::append_number(out, portal_.proxy_port);
    out += '\n';
  }

  void host(PortalChain chain, std::string_view condition = {}) {
    const bool everywhere = options_.listen.is_unspecified();
    append_dnat(begin(chain, portal_.port, condition), everywhere ? options_.host : options_.listen,
                portal_.proxy_port);
  }

  void non_local() {
    begin(PortalChain::NodePortsNonLocal, portal_.proxy_port, {}) +=
        " -m state --state NEW -j ACCEPT\n";
  }

 private:
  std::string& begin(PortalChain chain, uint16_t port, std::string_view condition) {
    std::string& out = out_[static_cast<size_t>(chain)];
    append_match(out, chain, service_, portal_, port);
    return out += condition;
  }

  const PortalOptions& options_;
  std::string_view service_;
  const Portal& portal_;
  PortalLines& out_;
};

PortalChain first_chain(const Portal& portal) {
  return portal.kind == Kind::NodePort ? PortalChain::NodePortsContainer
                                       : PortalChain::ServicesContainer;
}

}  // namespace

const std::vector<Jump>& jumps() {
  static constexpr std::string_view kPortals =
      " -m comment --comment \"handle ClusterIPs; NOTE: this must be before the NodePort rules\"";
  static constexpr std::string_view kNodePorts =
      " -m addrtype --dst-type LOCAL -m comment --comment \"handle service NodePorts; NOTE: this "
      "must be the last rule in the chain\"";
  static constexpr std::string_view kNonLocal =
      " -m comment --comment \"Ensure that non-local NodePort traffic can flow\"";
  static const std::vector<Jump> kJumps{
      {Table::Nat, "PREROUTING", "KUBE-PORTALS-CONTAINER", kPortals, true},
      {Table::Nat, "OUTPUT", "KUBE-PORTALS-HOST", kPortals, true},
      {Table::Nat, "PREROUTING", "KUBE-NODEPORT-CONTAINER", kNodePorts, true, true},
      {Table::Nat, "OUTPUT", "KUBE-NODEPORT-HOST", kNodePorts, true, true},
      {Table::Filter, "INPUT", "KUBE-NODEPORT-NON-LOCAL", kNonLocal, true},
  };
  return kJumps;
}

std::string_view name(PortalChain chain) { return kChains[static_cast<size_t>(chain)].name; }
Table table_of(PortalChain chain) { return kChains[static_cast<size_t>(chain)].table; }

iptables::Owned owned() { return iptables::owned(empty_chains(), jumps()); }

std::vector<Portal> portals_of(const PortPlan& plan) {
  std::vector<Portal> portals;
  const auto add = [&](Way way, Kind kind, const net::IpAddr& ip, uint16_t port) {
    const Portal portal{.kind = kind,
                        .protocol = plan.protocol,
                        .ip = ip,
                        .port = port,
                        .front = front_of(way, plan)};
    if (std::ranges::find(portals, portal) == portals.end()) portals.push_back(portal);
  };
  add(Way::Internal, Kind::ClusterIp, plan.cluster_ip, plan.port);
  for (const auto& ip : plan.external_ips)
    add(Way::External, Kind::ExternalIp, ip, plan.port);
  for (const auto& ip : plan.load_balancer_ips)
    add(plan.restricted() ? Way::LoadBalancer : Way::External, Kind::LoadBalancerIp, ip, plan.port);
  if (plan.node_port != 0) add(Way::External, Kind::NodePort, {}, plan.node_port);
  return portals;
}

std::vector<Portal> portals_of(const PortPlan& plan, const ProxyPorts& ports) {
  auto portals = portals_of(plan);
  for (auto& portal : portals)
    portal.proxy_port = ports[static_cast<size_t>(portal.front)];
  std::erase_if(portals, [](const Portal& portal) { return portal.proxy_port == 0; });
  return portals;
}

void append_rules(const PortalOptions& options, std::string_view service, const Portal& portal,
                  PortalLines& out) {
  PortalRules rules(options, service, portal, out);
  switch (portal.kind) {
    case Kind::ClusterIp:
    case Kind::LoadBalancerIp:
      rules.container(PortalChain::ServicesContainer);
      rules.host(PortalChain::ServicesHost);
      break;
    case Kind::ExternalIp:
      rules.container(PortalChain::ServicesContainer, kNotFromABridge);
      rules.container(PortalChain::ServicesContainer, kToThisNode);
      rules.host(PortalChain::ServicesHost, kToThisNode);
      break;
    case Kind::NodePort:
      rules.container(PortalChain::NodePortsContainer);
      rules.host(PortalChain::NodePortsHost);
      rules.non_local();
      break;
  }
}

std::string match_of(std::string_view service, const Portal& portal) {
  std::string out;
  append_match(out, first_chain(portal), service, portal, portal.port);
  if (portal.kind == Kind::ExternalIp) out += kNotFromABridge;
  return out;
}

std::vector<iptables::FixedChain> empty_chains() {
  std::vector<iptables::FixedChain> chains;
  for (const auto& chain : kChains)
    chains.push_back({.table = chain.table, .name = std::string(chain.name), .rules = {}});
  return chains;
}

void append_lines(const PortalLines& lines, std::vector<iptables::FixedChain>& chains) {
  for (size_t i = 0; i < kPortalChains; ++i)
    chains[i].rules += lines[i];
}

}  // namespace userspace
