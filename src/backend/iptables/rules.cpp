#include "backend/iptables/rules.h"

#include <cmath>
#include <cstdio>
#include <functional>

#include "base/text.h"

namespace iptables {
namespace {

using plan::EndpointPlan;
using plan::LocalTraffic;
using plan::PortPlan;
using plan::Verdict;

constexpr std::string_view kEndpointPrefix = "KUBE-SEP-";
constexpr std::string_view kClusterPrefix = "KUBE-SVC-";
constexpr std::string_view kLocalPrefix = "KUBE-SVL-";
constexpr std::string_view kExternalPrefix = "KUBE-EXT-";
constexpr std::string_view kFirewallPrefix = "KUBE-FW-";

std::string_view prefix(ChainKind kind) {
  switch (kind) {
    case ChainKind::Endpoint:
      return kEndpointPrefix;
    case ChainKind::Cluster:
      return kClusterPrefix;
    case ChainKind::Local:
      return kLocalPrefix;
    case ChainKind::External:
      return kExternalPrefix;
    case ChainKind::Firewall:
      return kFirewallPrefix;
  }
  return {};
}

// Builds one rule. The calls come in the order in which iptables-save prints the parts:
// addresses, interface, protocol, then matches, then the target.
class Rule {
 public:
  Rule(std::string& out, std::string_view chain) : out_(out) {
    out_ += "-A ";
    out_ += chain;
  }
  Rule(std::string& out, const ChainName& chain) : out_(out) {
    out_ += "-A ";
    chain.append_to(out_);
  }

  Rule& source(const net::Cidr& cidr) { return address(" -s ", cidr); }
  Rule& destination(const net::Cidr& cidr) { return address(" -d ", cidr); }
  Rule& destination(const net::IpAddr& ip) { return destination(net::Cidr::host(ip)); }

  // Packets that come (or do not come) from pods of this node.
  Rule& local_source(const LocalTraffic& local, bool negated) {
    append_local_source(out_, local, negated);
    return *this;
  }
  Rule& local_interface(const LocalTraffic& local, bool negated) {
    append_local_interface(out_, local, negated);
    return *this;
  }

  Rule& protocol(net::Protocol protocol) { return text(" -p ").text(net::lower_name(protocol)); }
  // Kubernetes names need no escapes inside the quotes.
  Rule& comment(std::string_view before, std::string_view name, std::string_view after = {}) {
    return text(" -m comment --comment \"").text(before).text(name).text(after).text("\"");
  }
  Rule& port_match(net::Protocol protocol) { return text(" -m ").text(net::lower_name(protocol)); }
  Rule& destination_port(net::Protocol protocol, uint16_t port) {
    port_match(protocol).text(" --dport ");
    base::append_number(out_, port);
    return *this;
  }
  Rule& text(std::string_view text) {
    out_ += text;
    return *this;
  }
  void jump(std::string_view target) { text(" -j ").text(target).text("\n"); }
  void jump(const ChainName& target) {
    out_ += " -j ";
    target.append_to(out_);
    out_ += '\n';
  }
  void end() { out_ += '\n'; }

 private:
  Rule& address(std::string_view option, const net::Cidr& cidr) {
    out_ += option;
    cidr.append_to(out_);
    return *this;
  }

  std::string& out_;
};

// The kernel keeps a probability as a multiple of 2^-31; the dump prints that with 11 decimals.
// What we write must already be the printed form: "0.33333333349" for 1/3.
std::string printed_probability(size_t choices) {
  char decimal[16];
  std::snprintf(decimal, sizeof decimal, "%.10f", 1.0 / static_cast<double>(choices));
  const double stored = std::round(std::strtod(decimal, nullptr) * 0x80000000p0) / 0x80000000p0;
  char text[16];
  std::snprintf(text, sizeof text, "%.11f", stored);
  return text;
}

void append_probability(std::string& out, size_t choices) {
  // Most Services have few endpoints; printing floating-point numbers is what takes time here.
  static const std::vector<std::string> kCommon = [] {
    std::vector<std::string> texts{""};
    for (size_t n = 1; n <= 256; ++n)
      texts.push_back(printed_probability(n));
    return texts;
  }();
  out += choices < kCommon.size() ? kCommon[choices] : printed_probability(choices);
}

// "ns/name:porttcp"
std::string hashed_name(std::string_view port, net::Protocol protocol) {
  std::string text(port);
  text += net::lower_name(protocol);
  return text;
}

// Renders the chains and shared lines of one Service port.
class PortRenderer {
 public:
  PortRenderer(const PortPlan& port, const RuleOptions& options, bool large, ServiceRules& out)
      : port_(port), options_(options), large_(large), out_(out) {
    scratch_ = hashed_name(port.name, port.protocol);
    const codec::ChainHash hash = codec::chain_hash(scratch_);
    cluster_ = {ChainKind::Cluster, hash};
    local_ = {ChainKind::Local, hash};
    external_ = {ChainKind::External, hash};
    firewall_ = {ChainKind::Firewall, hash};
  }

  void render() {
    shared_lines();
    if (!port_.has_endpoints) return;
    endpoint_chains();
    if (port_.cluster_count > 0) {
      dispatch_chain(cluster_, &EndpointPlan::cluster, port_.cluster_count);
    }
    if (port_.local_count > 0) {
      dispatch_chain(local_, &EndpointPlan::node_local, port_.local_count);
    }
    if (port_.externally_accessible) external_chain();
    if (port_.restricted()) firewall_chain();
  }

 private:
  // ---- lines in the chains that all Services share

  void shared_lines() {
    cluster_ip_lines();
    for (const auto& ip : port_.external_ips) {
      if (port_.has_endpoints) front_end(ip, " external IP", external_);
      no_external_endpoint(ip);
    }
    for (const auto& ip : port_.load_balancer_ips) {
      if (port_.has_endpoints) {
        front_end(ip, " loadbalancer IP", port_.restricted() ? firewall_ : external_);
        if (port_.restricted()) not_accepted(ip);
      }
    }
    for (const auto& ip : port_.load_balancer_ips)
      no_external_endpoint(ip);
    if (port_.node_port != 0) node_port_lines();
    if (port_.health_check_node_port != 0) {
      shared(SharedChain::FilterNodePorts)
          .protocol(net::Protocol::Tcp)
          .comment("", port_.name, " health check node port")
          .destination_port(net::Protocol::Tcp, port_.health_check_node_port)
          .jump("ACCEPT");
    }
  }

  void cluster_ip_lines() {
    const Verdict verdict = port_.internal_verdict();
    if (verdict == Verdict::Cluster || verdict == Verdict::Local) {
      front_end(port_.cluster_ip, " cluster IP", verdict == Verdict::Local ? local_ : cluster_);
    } else {
      refuse(shared(SharedChain::FilterServices).destination(port_.cluster_ip), port_.port, "");
    }
  }

  void front_end(const net::IpAddr& ip, std::string_view what, const ChainName& target) {
    shared(SharedChain::NatServices)
        .destination(ip)
        .protocol(port_.protocol)
        .comment("", port_.name, what)
        .destination_port(port_.protocol, port_.port)
        .jump(target);
  }

  void no_external_endpoint(const net::IpAddr& ip) {
    if (has_external_endpoint()) return;
    refuse(shared(SharedChain::FilterExternal).destination(ip), port_.port, "");
  }

  void not_accepted(const net::IpAddr& ip) {
    shared(SharedChain::FilterFirewall)
        .destination(ip)
        .protocol(port_.protocol)
        .comment("", port_.name, " traffic not accepted by " + firewall_.str())
        .destination_port(port_.protocol, port_.port)
        .jump("DROP");
  }

  void node_port_lines() {
    if (port_.has_endpoints) {
      if (options_.localhost_node_ports && options_.count_localhost) {
        shared(SharedChain::NatNodePorts)
            .destination(net::Cidr(net::IpAddr::v4(0x7f000000), 8))
            .protocol(port_.protocol)
            .comment("", port_.name)
            .destination_port(port_.protocol, port_.node_port)
            .text(" -m nfacct --nfacct-name  localhost_nps_accepted_pkts")
            .jump(external_);
      }
      shared(SharedChain::NatNodePorts)
          .protocol(port_.protocol)
          .comment("", port_.name)
          .destination_port(port_.protocol, port_.node_port)
          .jump(external_);
    }
    if (!has_external_endpoint()) {
      refuse(shared(SharedChain::FilterExternal), port_.node_port, " -m addrtype --dst-type LOCAL");
    }
  }

  // Finishes a rule for traffic that has nowhere to go.
  void refuse(Rule rule, uint16_t port, std::string_view match) {
    const bool reject = !port_.has_endpoints;
    rule.protocol(port_.protocol)
        .comment("", port_.name, reject ? " has no endpoints" : " has no local endpoints")
        .text(match)
        .destination_port(port_.protocol, port);
    rule.jump(reject ? reject_target(options_.family) : "DROP");
  }

  // ---- chains of this port

  void external_chain() {
    begin_chain();
    if (!port_.external_local) {
      rule(external_)
          .comment("masquerade traffic for ", port_.name, " external destinations")
          .jump("KUBE-MARK-MASQ");
    } else {
      short_circuits();
    }
    const Verdict verdict = port_.external_verdict();
    if (verdict == Verdict::Local) rule(external_).jump(local_);
    if (verdict == Verdict::Cluster) rule(external_).jump(cluster_);
    end_chain(external_);
  }

  // With policy Local, pods of this cluster and the node itself still reach every endpoint.
  void short_circuits() {
    if (options_.local_traffic.by != LocalTraffic::By::Nothing) {
      rule(external_)
          .local_source(options_.local_traffic, false)
          .local_interface(options_.local_traffic, false)
          .comment("pod traffic for ", port_.name, " external destinations")
          .jump(cluster_);
    }
    rule(external_)
        .comment("masquerade LOCAL traffic for ", port_.name, " external destinations")
        .text(" -m addrtype --src-type LOCAL")
        .jump("KUBE-MARK-MASQ");
    rule(external_)
        .comment("route LOCAL traffic for ", port_.name, " external destinations")
        .text(" -m addrtype --src-type LOCAL")
        .jump(cluster_);
  }

  void firewall_chain() {
    begin_chain();
    for (const auto& range : port_.source_ranges)
      accept_source(range);
    // A node may use its own load balancer: such packets carry the VIP as their source.
    if (port_.node_in_source_ranges) {
      for (const auto& ip : port_.load_balancer_ips)
        accept_source(net::Cidr::host(ip));
    }
    rule(firewall_)
        .comment("other traffic to ", port_.name, " will be dropped by KUBE-PROXY-FIREWALL")
        .end();
    end_chain(firewall_);
  }

  void accept_source(const net::Cidr& range) {
    rule(firewall_).source(range).comment("", port_.name, " loadbalancer IP").jump(external_);
  }

  void dispatch_chain(const ChainName& chain, plan::Reason EndpointPlan::* list, size_t count) {
    begin_chain();
    const bool internal =
        chain.kind == (port_.internal_local ? ChainKind::Local : ChainKind::Cluster);
    if (internal) masquerade_rule(chain);
    if (port_.affinity_timeout_s) {
      each_endpoint(list, [&](const EndpointPlan& endpoint, const ChainName& target) {
        Rule affinity = dispatch_rule(chain, endpoint);
        affinity.text(" -m recent --rcheck --seconds ");
        base::append_number(out_.text, *port_.affinity_timeout_s);
        recent_name(affinity.text(" --reap"), target).jump(target);
      });
    }
    size_t left = count;
    each_endpoint(list, [&](const EndpointPlan& endpoint, const ChainName& target) {
      Rule pick = dispatch_rule(chain, endpoint);
      if (left > 1) {
        pick.text(" -m statistic --mode random --probability ");
        append_probability(out_.text, left);
      }
      pick.jump(target);
      --left;
    });
    end_chain(chain);
  }

  // Traffic to the cluster IP that does not come from a pod gets our address as its source.
  void masquerade_rule(const ChainName& chain) {
    if (!options_.masquerade_all && options_.local_traffic.by == LocalTraffic::By::Nothing) return;
    Rule masquerade = rule(chain);
    if (!options_.masquerade_all) masquerade.local_source(options_.local_traffic, true);
    masquerade.destination(port_.cluster_ip);
    if (!options_.masquerade_all) masquerade.local_interface(options_.local_traffic, true);
    masquerade.protocol(port_.protocol)
        .comment("", port_.name, " cluster IP")
        .destination_port(port_.protocol, port_.port)
        .jump("KUBE-MARK-MASQ");
  }

  Rule dispatch_rule(const ChainName& chain, const EndpointPlan& endpoint) {
    Rule line = rule(chain);
    if (!large_) {
      line.text(" -m comment --comment \"").text(port_.name).text(" -> ");
      line.text(endpoint.text.view()).text("\"");
    }
    return line;
  }

  Rule& recent_name(Rule& line, const ChainName& endpoint_chain) {
    line.text(" --name ").text(endpoint_chain.str());
    line.text(options_.family == net::Family::V4
                  ? " --mask 255.255.255.255"
                  : " --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    return line.text(" --rsource");
  }

  void endpoint_chains() {
    endpoint_names_.resize(port_.endpoints.size());
    const size_t hashed_prefix = scratch_.size();
    for (size_t i = 0; i < port_.endpoints.size(); ++i) {
      const EndpointPlan& endpoint = port_.endpoints[i];
      if (!endpoint.reachable()) continue;
      scratch_.resize(hashed_prefix);
      scratch_ += endpoint.text.view();
      endpoint_names_[i] = {ChainKind::Endpoint, codec::chain_hash(scratch_)};
      endpoint_chain(endpoint, endpoint_names_[i]);
    }
  }

  void endpoint_chain(const EndpointPlan& endpoint, const ChainName& chain) {
    begin_chain();
    Rule hairpin = rule(chain);
    hairpin.source(net::Cidr::host(endpoint.ip));
    if (!large_) hairpin.comment("", port_.name);
    hairpin.jump("KUBE-MARK-MASQ");

    Rule rewrite = rule(chain);
    rewrite.protocol(port_.protocol);
    if (!large_) rewrite.comment("", port_.name);
    if (port_.affinity_timeout_s) recent_name(rewrite.text(" -m recent --set"), chain);
    rewrite.port_match(port_.protocol).text(" -j DNAT --to-destination ");
    rewrite.text(endpoint.text.view()).end();
    end_chain(chain);
  }

  // ---- bookkeeping

  template <typename Visit>
  void each_endpoint(plan::Reason EndpointPlan::* list, Visit&& visit) {
    for (size_t i = 0; i < port_.endpoints.size(); ++i) {
      if (plan::in_use(port_.endpoints[i].*list)) visit(port_.endpoints[i], endpoint_names_[i]);
    }
  }

  bool has_external_endpoint() const {
    const Verdict verdict = port_.external_verdict();
    return verdict == Verdict::Cluster || verdict == Verdict::Local;
  }

  Rule shared(SharedChain chain) {
    return Rule(out_.shared[static_cast<size_t>(chain)], iptables::name(chain));
  }
  Rule rule(const ChainName& chain) { return Rule(out_.text, chain); }

  void begin_chain() { begin_ = static_cast<uint32_t>(out_.text.size()); }
  void end_chain(const ChainName& name) {
    Chain chain{.name = name, .begin = begin_, .end = static_cast<uint32_t>(out_.text.size())};
    chain.digest = digest_of(out_.rules(chain));
    out_.chains.push_back(chain);
  }

  const PortPlan& port_;
  const RuleOptions& options_;
  const bool large_;
  ServiceRules& out_;
  ChainName cluster_, local_, external_, firewall_;
  std::vector<ChainName> endpoint_names_;  // by index of the endpoint
  std::string scratch_;                    // "ns/name:porttcp", the start of every hashed text
  uint32_t begin_ = 0;
};

}  // namespace

codec::ChainHash port_hash(std::string_view port, net::Protocol protocol) {
  return codec::chain_hash(hashed_name(port, protocol));
}

std::string_view name(Table table) {
  switch (table) {
    case Table::Mangle:
      return "mangle";
    case Table::Filter:
      return "filter";
    case Table::Nat:
      return "nat";
  }
  return {};
}

void ChainName::append_to(std::string& out) const {
  out += prefix(kind);
  out += codec::view(hash);
}

std::string ChainName::str() const {
  std::string out;
  append_to(out);
  return out;
}

bool is_service_chain(std::string_view name) {
  for (const auto p :
       {kEndpointPrefix, kClusterPrefix, kLocalPrefix, kExternalPrefix, kFirewallPrefix}) {
    if (name.starts_with(p)) return true;
  }
  return false;
}

std::string_view name(SharedChain chain) {
  switch (chain) {
    case SharedChain::FilterServices:
    case SharedChain::NatServices:
      return "KUBE-SERVICES";
    case SharedChain::FilterExternal:
      return "KUBE-EXTERNAL-SERVICES";
    case SharedChain::FilterNodePorts:
    case SharedChain::NatNodePorts:
      return "KUBE-NODEPORTS";
    case SharedChain::FilterFirewall:
      return "KUBE-PROXY-FIREWALL";
  }
  return {};
}

Table table_of(SharedChain chain) {
  return chain >= SharedChain::NatServices ? Table::Nat : Table::Filter;
}

void append_local_source(std::string& out, const LocalTraffic& local, bool negated) {
  if (local.by != LocalTraffic::By::Source) return;
  out += negated ? " ! -s " : " -s ";
  local.cidr.append_to(out);
}

void append_local_interface(std::string& out, const LocalTraffic& local, bool negated) {
  const bool is_prefix = local.by == LocalTraffic::By::InterfacePrefix;
  if (local.by != LocalTraffic::By::Interface && !is_prefix) return;
  out += negated ? " ! -i " : " -i ";
  out += local.interface;
  if (is_prefix) out += '+';
}

std::string_view reject_target(net::Family family) {
  return family == net::Family::V4 ? "REJECT --reject-with icmp-port-unreachable"
                                   : "REJECT --reject-with icmp6-port-unreachable";
}

void ServiceRules::clear() {
  for (auto& lines : shared)
    lines.clear();
  chains.clear();
  text.clear();
}

void RuleDigest::add_line(std::string_view line) {
  const uint64_t hash = std::hash<std::string_view>{}(line);
  value_ = (value_ ^ hash) * 0x9fb21c651e98df25 + (value_ >> 29);
}

void RuleDigest::add_lines(std::string_view lines) {
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    add_line(lines.substr(0, end));
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
  }
}

uint64_t digest_of(std::string_view lines) {
  RuleDigest digest;
  digest.add_lines(lines);
  return digest.value();
}

void render_service(const plan::ServicePlan& plan, const RuleOptions& options, bool large,
                    ServiceRules& out) {
  out.clear();
  for (const auto& port : plan.ports)
    PortRenderer(port, options, large, out).render();
}

}  // namespace iptables
