#include "backend/nftables/layout.h"

#include <linux/netfilter.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "base/check.h"

namespace nftables {
namespace {

using Holds = SetLayout::Holds;
using VerdictKind = Verdict::Kind;

const std::vector<FieldType> kFrontKey{FieldType::Address, FieldType::Protocol, FieldType::Port};
const std::vector<FieldType> kNodePortKey{FieldType::Protocol, FieldType::Port};
const std::vector<FieldType> kEndpoint{FieldType::Address, FieldType::Port};

// In the order of SetId. Those with a name of the original's have its types and comments, so that either can take over
// from the other.
const std::array<SetLayout, kSets> kLayouts{{
    {.id = SetId::ClusterIps,
     .name = "cluster-ips",
     .key = {FieldType::Address},
     .comment = "Active ClusterIPs"},
    {.id = SetId::NodePortIps,
     .name = "nodeport-ips",
     .key = {FieldType::Address},
     .comment = "IPs that accept NodePort traffic"},
    {.id = SetId::HairpinConnections,
     .name = "hairpin-connections",
     .key = {FieldType::Address, FieldType::Address, FieldType::Protocol, FieldType::Port},
     .comment = "service hairpin connections"},
    {.id = SetId::ServiceIps,
     .name = "service-ips",
     .key = kFrontKey,
     .holds = Holds::Verdicts,
     .comment = "ClusterIP, ExternalIP and LoadBalancer IP traffic"},
    {.id = SetId::ServiceNodePorts,
     .name = "service-nodeports",
     .key = kNodePortKey,
     .holds = Holds::Verdicts,
     .comment = "NodePort traffic"},
    {.id = SetId::NoEndpointServices,
     .name = "no-endpoint-services",
     .key = kFrontKey,
     .holds = Holds::Verdicts,
     .comment = "vmap to drop or reject packets to services with no endpoints"},
    {.id = SetId::NoEndpointNodePorts,
     .name = "no-endpoint-nodeports",
     .key = kNodePortKey,
     .holds = Holds::Verdicts,
     .comment = "vmap to drop or reject packets to service nodeports with no endpoints"},
    {.id = SetId::FirewallIps,
     .name = "firewall-ips",
     .key = kFrontKey,
     .holds = Holds::Verdicts,
     .comment = "destinations that are subject to LoadBalancerSourceRanges"},
    {.id = SetId::Endpoints,
     .name = "endpoints",
     .key = {FieldType::Address, FieldType::Protocol, FieldType::Port, FieldType::Mark},
     .holds = Holds::Values,
     .value = kEndpoint,
     .comment = "service address, protocol, port, number of the endpoint : endpoint"},
    {.id = SetId::NodePortEndpoints,
     .name = "nodeport-endpoints",
     .key = {FieldType::Protocol, FieldType::Port, FieldType::Mark},
     .holds = Holds::Values,
     .value = kEndpoint,
     .comment = "protocol, NodePort, number of the endpoint : endpoint"},
    {.id = SetId::AllowedSources,
     .name = "allowed-sources",
     .key = {FieldType::Address, FieldType::Protocol, FieldType::Port, FieldType::Address},
     .interval = true,
     .comment = "LoadBalancerSourceRanges of the destinations in firewall-ips"},
    {.id = SetId::ServiceCidrs,
     .name = "service-cidrs",
     .key = {FieldType::Address},
     .interval = true,
     .comment = "ServiceCIDRs of the cluster"},
    {.id = SetId::StickyServices,
     .name = "sticky-services",
     .key = kFrontKey,
     .holds = Holds::Verdicts,
     .comment = "services with session affinity"},
    {.id = SetId::StickyNodePorts,
     .name = "sticky-nodeports",
     .key = kNodePortKey,
     .holds = Holds::Verdicts,
     .comment = "NodePorts with session affinity"},
    {.id = SetId::Affinity,
     .name = "affinity",
     .key = {FieldType::Address, FieldType::Protocol, FieldType::Port, FieldType::Address},
     .holds = Holds::Values,
     .value = kEndpoint,
     .dynamic = true,
     .comment = "service address, protocol, port, client : endpoint"},
    {.id = SetId::Fingerprint,
     .name = "fingerprint",
     .key = {FieldType::Mark, FieldType::Mark, FieldType::Mark, FieldType::Mark},
     .comment = "of all that the proxy wrote"},
}};

size_t size_of(const std::vector<FieldType>& fields, net::Family family) {
  size_t size = 0;
  for (const FieldType field : fields)
    size += field == FieldType::Address && family == net::Family::V6 ? 16 : 4;
  return size;
}

Verdict jump(std::string_view chain) { return {VerdictKind::Jump, std::string(chain)}; }
Verdict go(const Target& target) { return {VerdictKind::Goto, chain_name(target)}; }

Key front_key() { return {Field::DestinationAddress, Field::Protocol, Field::DestinationPort}; }
Key node_port_key() { return {Field::Protocol, Field::DestinationPort}; }

net::Cidr loopback(net::Family family) {
  if (family == net::Family::V4) return {net::IpAddr::v4(0x7f000000), 8};
  std::array<uint8_t, 16> bytes{};
  bytes[15] = 1;
  return net::Cidr::host(net::IpAddr::v6(bytes));
}

// Packets that come from pods of this node, or all others. REQUIRES: that can be told.
Statement local_pods(const plan::LocalTraffic& local, bool inverted) {
  using By = plan::LocalTraffic::By;
  if (local.by == By::Source) return Within{Field::SourceAddress, local.cidr, inverted};
  return Enters{local.interface, local.by == By::InterfacePrefix, inverted};
}

bool knows_local_pods(const Options& options) {
  return options.local_traffic.by != plan::LocalTraffic::By::Nothing;
}

Chain base_chain(std::string_view name, Hook hook, std::vector<Rule> rules) {
  return {.name = std::string(name), .hook = hook, .rules = std::move(rules)};
}

Chain plain_chain(std::string_view name, std::vector<Rule> rules) {
  return {.name = std::string(name), .rules = std::move(rules)};
}

Rule when_new(std::string_view chain) { return {{New{}, jump(chain)}}; }
Rule remember_affinity() { return {{New{}, Translated{}, jump("remember")}}; }

// With route_localnet the kernel takes packets to 127.0.0.1 from the network, for programs that believe themselves
// unreachable from there (CVE-2020-8558).
Rule protect_localhost(net::Family family) {
  return {{Enters{.interface = "lo", .inverted = true},
           Within{Field::DestinationAddress, loopback(family)}, Verdict{}},
          "nobody outside reaches localhost"};
}

std::vector<Rule> prerouting_rules(const Options& options) {
  std::vector<Rule> rules;
  if (options.localhost_node_ports) rules.push_back(protect_localhost(options.family));
  rules.push_back(when_new("firewall-check"));
  return rules;
}

std::vector<Chain> base_chains(const Options& options) {
  const auto filter = [](std::string_view point, uint32_t number, int32_t priority) {
    return Hook{"filter", point, number, priority};
  };
  const auto nat = [](std::string_view point, uint32_t number, int32_t priority) {
    return Hook{"nat", point, number, priority};
  };
  return {
      base_chain("filter-prerouting-pre-dnat", filter("prerouting", NF_INET_PRE_ROUTING, -110),
                 prerouting_rules(options)),
      base_chain("filter-output-pre-dnat", filter("output", NF_INET_LOCAL_OUT, -110),
                 {when_new("firewall-check")}),
      base_chain("filter-input", filter("input", NF_INET_LOCAL_IN, 0),
                 {when_new("nodeport-endpoints-check"), when_new("service-endpoints-check"),
                  remember_affinity()}),
      base_chain("filter-forward", filter("forward", NF_INET_FORWARD, 0),
                 {when_new("service-endpoints-check"), when_new("cluster-ips-check"),
                  remember_affinity()}),
      base_chain("filter-output", filter("output", NF_INET_LOCAL_OUT, 0),
                 {when_new("service-endpoints-check"), when_new("cluster-ips-check"),
                  remember_affinity()}),
      base_chain("nat-prerouting", nat("prerouting", NF_INET_PRE_ROUTING, -100),
                 {{{jump("services")}}}),
      base_chain("nat-output", nat("output", NF_INET_LOCAL_OUT, -100), {{{jump("services")}}}),
      base_chain("nat-postrouting", nat("postrouting", NF_INET_POST_ROUTING, 100),
                 {{{jump("masquerading")}}}),
  };
}

// The condition that a packet goes to an address on which node ports are open. `routed`: the routing table must agree.
std::vector<Statement> to_node_port_address(const Options& options, bool routed) {
  if (!options.node_ports_everywhere)
    return {Member{{Field::DestinationAddress}, SetId::NodePortIps}};
  std::vector<Statement> conditions;
  if (routed) conditions.emplace_back(IsLocal{Field::DestinationAddress});
  conditions.emplace_back(Within{Field::DestinationAddress, loopback(options.family), true});
  return conditions;
}

Rule node_port_rule(const Options& options, bool routed, SetId map) {
  Rule rule{to_node_port_address(options, routed)};
  rule.statements.emplace_back(Dispatch{node_port_key(), map});
  return rule;
}

std::vector<Rule> services_rules(const Options& options) {
  std::vector<Rule> rules;
  const Member to_cluster_ip{{Field::DestinationAddress}, SetId::ClusterIps};
  const Mark masquerade{options.masquerade_mark};
  if (options.masquerade_all) {
    rules.push_back({{to_cluster_ip, masquerade}, "masquerade all clusterIP traffic"});
  } else if (knows_local_pods(options)) {
    rules.push_back({{to_cluster_ip, local_pods(options.local_traffic, true), masquerade},
                     "masquerade clusterIP traffic from outside cluster"});
  }
  rules.push_back({{Dispatch{front_key(), SetId::ServiceIps}}});
  rules.push_back(node_port_rule(options, true, SetId::ServiceNodePorts));
  return rules;
}

std::vector<Rule> masquerading_rules(const Options& options) {
  return {
      {{Marked{options.masquerade_mark}, Mark{options.masquerade_mark, true}, Masquerade{}}},
      {{Translated{},
        Member{{Field::SourceAddress, Field::DestinationAddress, Field::Protocol,
                Field::DestinationPort},
               SetId::HairpinConnections},
        Masquerade{}}},
  };
}

std::vector<Rule> source_ranges_rules() {
  return {
      {{Member{{Field::DestinationAddress, Field::Protocol, Field::DestinationPort,
                Field::SourceAddress},
               SetId::AllowedSources},
        Verdict{VerdictKind::Return, {}}}},
      {{Verdict{}}},
  };
}

std::vector<Rule> cluster_ips_rules() {
  return {
      {{Member{{Field::DestinationAddress}, SetId::ClusterIps}, Reject{}},
       "Reject traffic to invalid ports of ClusterIPs"},
      {{Member{{Field::DestinationAddress}, SetId::ServiceCidrs}, Verdict{}},
       "Drop traffic to unallocated ClusterIPs"},
  };
}

std::vector<Rule> remember_rules(const Options& options) {
  std::vector<Rule> rules{
      {{Dispatch{{Field::OriginalAddress, Field::Protocol, Field::OriginalPort},
                 SetId::StickyServices}}},
  };
  Rule node_ports;
  if (!options.node_ports_everywhere)
    node_ports.statements.emplace_back(Member{{Field::OriginalAddress}, SetId::NodePortIps});
  node_ports.statements.emplace_back(
      Dispatch{{Field::Protocol, Field::OriginalPort}, SetId::StickyNodePorts});
  rules.push_back(std::move(node_ports));
  return rules;
}

// To one of the endpoints that a list of the front end has.
class Lists {
 public:
  explicit Lists(const Class& front)
      : key_(front.node_port ? node_port_key() : front_key()),
        map_(front.node_port ? SetId::NodePortEndpoints : SetId::Endpoints) {}

  // To any of `count` endpoints. A packet that drew a number just before its Service has shrunk finds no such
  // endpoint: the set is looked up as it is now, the chain may be one of before. The first endpoint is there.
  void pick(uint32_t count, uint32_t offset, std::vector<Rule>& rules) const {
    rules.push_back({{translate({count, offset})}});
    if (count > 1) rules.push_back({{translate({1, offset})}});
  }

 private:
  Translate translate(const Draw& draw) const {
    Key key = key_;
    key.emplace_back(draw);
    return {std::move(key), map_};
  }

  Key key_;
  SetId map_;
};

Rule to_remembered() {
  Key key = front_key();
  key.emplace_back(Field::SourceAddress);
  return {{Translate{std::move(key), SetId::Affinity}}};
}

// Where traffic of this node itself goes, which does not have to stay here.
Target short_circuit(const Class& front) {
  Class anywhere = front;
  anywhere.kind = Class::Kind::Internal;
  anywhere.local = 0;
  return {.kind = Target::Kind::Class, .front = anywhere};
}

void add_short_circuits(const Class& front, const Options& options, std::vector<Rule>& rules) {
  const Verdict there = go(short_circuit(front));
  if (knows_local_pods(options)) {
    rules.push_back(
        {{local_pods(options.local_traffic, false), there}, "short-circuit pod traffic"});
  }
  const IsLocal from_here{Field::SourceAddress};
  rules.push_back({{from_here, Mark{options.masquerade_mark}}, "masquerade local traffic"});
  rules.push_back({{from_here, there}, "short-circuit local traffic"});
}

std::vector<Rule> class_rules(const Class& front, const Options& options) {
  std::vector<Rule> rules;
  const bool local = front.kind == Class::Kind::ExternalLocal;
  const uint32_t count = local ? front.local : front.endpoints;
  if (front.kind == Class::Kind::External)
    rules.push_back({{Mark{options.masquerade_mark}}, "masquerade"});
  if (local && front.endpoints > 0) add_short_circuits(front, options, rules);
  if (count == 0) return rules;
  if (front.sticky) rules.push_back(to_remembered());
  Lists(front).pick(count, local ? kLocalList : 0, rules);
  return rules;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

uint32_t take_number(std::string_view& text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc() ? number : 0;
}

std::string class_name(const Class& front) {
  std::string name = front.node_port ? "nodeport/" : "";
  switch (front.kind) {
    case Class::Kind::Internal:
      name += "endpoints/" + std::to_string(front.endpoints);
      break;
    case Class::Kind::External:
      name += "masquerade/" + std::to_string(front.endpoints);
      break;
    case Class::Kind::ExternalLocal:
      name += "local/" + std::to_string(front.endpoints) + "/" + std::to_string(front.local);
      break;
  }
  return front.sticky ? name + "/sticky" : name;
}

Rule remember_rule(uint32_t timeout_s) {
  return {{Remember{
      SetId::Affinity,
      {Field::OriginalAddress, Field::Protocol, Field::OriginalPort, Field::SourceAddress},
      {Field::DestinationAddress, Field::DestinationPort},
      std::chrono::seconds(timeout_s)}}};
}

}  // namespace

const SetLayout& layout_of(SetId id) { return kLayouts.at(static_cast<size_t>(id)); }
std::string_view name(SetId id) { return layout_of(id).name; }

std::vector<SetId> sets_of(const Options& options) {
  std::vector<SetId> sets;
  for (const auto& layout : kLayouts) {
    if (layout.id != SetId::NodePortIps || !options.node_ports_everywhere)
      sets.push_back(layout.id);
  }
  return sets;
}

size_t key_size(SetId id, net::Family family) { return size_of(layout_of(id).key, family); }
size_t value_size(SetId id, net::Family family) { return size_of(layout_of(id).value, family); }

uint32_t capacity_for(size_t elements) {
  constexpr size_t kLeast = 4096;
  return static_cast<uint32_t>(std::bit_ceil(std::max(elements + elements / 4, kLeast)));
}

uint32_t declared_size(SetId id, const Capacity& capacity) {
  switch (id) {
    case SetId::Affinity:
      return kAffinityCapacity;
    case SetId::Endpoints:
      return capacity.endpoints;
    case SetId::NodePortEndpoints:
      return capacity.node_port_endpoints;
    default:
      return 0;
  }
}

std::string chain_name(const Target& target) {
  switch (target.kind) {
    case Target::Kind::Drop:
      return "";
    case Target::Kind::Reject:
      return "reject-chain";
    case Target::Kind::CheckSources:
      return "source-ranges";
    case Target::Kind::Class:
      return class_name(target.front);
    case Target::Kind::Remember:
      return "remember-" + std::to_string(target.timeout_s);
  }
  __builtin_unreachable();
}

std::optional<Target> parse_target(std::string_view chain) {
  for (const auto kind : {Target::Kind::Reject, Target::Kind::CheckSources}) {
    if (chain == chain_name({.kind = kind})) return Target{.kind = kind};
  }
  Target target{.kind = Target::Kind::Class};
  Class& front = target.front;
  std::string_view rest = chain;
  if (take_prefix(rest, "remember-")) {
    target.kind = Target::Kind::Remember;
    target.timeout_s = take_number(rest);
  } else {
    front.node_port = take_prefix(rest, "nodeport/");
    if (take_prefix(rest, "local/")) {
      front.kind = Class::Kind::ExternalLocal;
    } else if (take_prefix(rest, "masquerade/")) {
      front.kind = Class::Kind::External;
    } else if (!take_prefix(rest, "endpoints/")) {
      return std::nullopt;
    }
    front.endpoints = take_number(rest);
    if (front.kind == Class::Kind::ExternalLocal && take_prefix(rest, "/"))
      front.local = take_number(rest);
    front.sticky = take_prefix(rest, "/sticky");
  }
  return chain_name(target) == chain ? std::optional(target) : std::nullopt;
}

std::vector<Target> needed_by(const Target& target) {
  const bool local = target.kind == Target::Kind::Class &&
                     target.front.kind == Class::Kind::ExternalLocal && target.front.endpoints > 0;
  return local ? std::vector{short_circuit(target.front)} : std::vector<Target>{};
}

std::vector<Chain> static_chains(const Options& options) {
  auto chains = base_chains(options);
  chains.push_back(plain_chain("nodeport-endpoints-check",
                               {node_port_rule(options, false, SetId::NoEndpointNodePorts)}));
  chains.push_back(plain_chain("service-endpoints-check",
                               {{{Dispatch{front_key(), SetId::NoEndpointServices}}}}));
  chains.push_back(plain_chain("firewall-check", {{{Dispatch{front_key(), SetId::FirewallIps}}}}));
  chains.push_back(plain_chain("source-ranges", source_ranges_rules()));
  chains.push_back(plain_chain("services", services_rules(options)));
  chains.push_back(plain_chain("masquerading", masquerading_rules(options)));
  chains.push_back(plain_chain("cluster-ips-check", cluster_ips_rules()));
  chains.push_back({.name = "reject-chain",
                    .comment = "helper for @no-endpoint-services / @no-endpoint-nodeports",
                    .rules = {{{Reject{}}}}});
  chains.push_back(plain_chain("remember", remember_rules(options)));
  return chains;
}

Chain chain_of(const Target& target, const Options& options) {
  CHECK(target.on_demand());
  auto rules = target.kind == Target::Kind::Class
                   ? class_rules(target.front, options)
                   : std::vector<Rule>{remember_rule(target.timeout_s)};
  return {.name = chain_name(target), .rules = std::move(rules)};
}

}  // namespace nftables
