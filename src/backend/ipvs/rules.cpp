#include "backend/ipvs/rules.h"

#include <string_view>

#include "base/text.h"

namespace ipvs {
namespace {

using iptables::FixedChain;
using iptables::Jump;
using iptables::Table;

std::string comment(std::string_view text) {
  return " -m comment --comment \"" + std::string(text) + "\"";
}

// As IP numbers it.
int number_of(net::Protocol protocol) {
  switch (protocol) {
    case net::Protocol::Tcp:
      return 6;
    case net::Protocol::Udp:
      return 17;
    case net::Protocol::Sctp:
      return 132;
  }
  return 0;
}

iptables::RuleOptions common_options(const Options& options) {
  return {.family = options.family,
          .masquerade_mark = options.masquerade_mark,
          .masquerade_all = options.masquerade_all,
          .random_fully = options.random_fully,
          .invalid_drop = false,
          .local_traffic = options.local_traffic};
}

// The rules of the chains, one function each.
class ChainRules {
 public:
  ChainRules(const Options& options, const Filled& filled) : options_(options), filled_(filled) {}

  std::string services() const {
    const bool v4 = options_.family == net::Family::V4;
    std::string out =
        std::string("-A KUBE-SERVICES -s ") + (v4 ? "127.0.0.0/8" : "::1/128") + " -j RETURN\n";
    out += if_filled(SetId::LoadBalancer, "-A KUBE-SERVICES", "dst,dst", "KUBE-LOAD-BALANCER");
    out += cluster_ip_masquerade();
    out += if_filled(SetId::ExternalIp, "-A KUBE-SERVICES", "dst,dst", "KUBE-MARK-MASQ");
    out += accept_external(SetId::ExternalIp);
    out += accept_external(SetId::ExternalIpLocal);
    out += "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT\n";
    for (const SetId set : {SetId::ClusterIp, SetId::LoadBalancer})
      if (has(set)) out += "-A KUBE-SERVICES" + match(set, "dst,dst") + " -j ACCEPT\n";
    return out;
  }

  std::string postrouting() const {
    return if_filled(SetId::LoopBack, "-A KUBE-POSTROUTING", "dst,dst,src", "MASQUERADE") +
           iptables::postrouting_rules(common_options(options_));
  }

  std::string node_port() const {
    const auto rules = [&](SetId all, SetId local, std::string_view protocol,
                           std::string_view fields) {
      const std::string head = "-A KUBE-NODE-PORT -p " + std::string(protocol);
      return if_filled(local, head, fields, "RETURN") +
             if_filled(all, head, fields, "KUBE-MARK-MASQ");
    };
    return rules(SetId::NodePortTcp, SetId::NodePortLocalTcp, "tcp", "dst") +
           rules(SetId::NodePortUdp, SetId::NodePortLocalUdp, "udp", "dst") +
           rules(SetId::NodePortSctp, SetId::NodePortLocalSctp, "sctp", "dst,dst");
  }

  std::string load_balancer() const {
    return if_filled(SetId::LoadBalancerLocal, "-A KUBE-LOAD-BALANCER", "dst,dst", "RETURN") +
           "-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ\n";
  }

  std::string health_check() const {
    return "-A KUBE-NODE-PORT" + comment(comment_of(SetId::HealthCheckNodePort)) +
           match(SetId::HealthCheckNodePort, "dst") + " -j ACCEPT\n";
  }

  std::string firewall() const {
    return if_filled(SetId::LoadBalancerFirewall, "-A KUBE-PROXY-FIREWALL", "dst,dst",
                     "KUBE-SOURCE-RANGES-FIREWALL");
  }

  std::string source_ranges() const {
    std::string out;
    for (const SetId set : {SetId::LoadBalancerSourceCidr, SetId::LoadBalancerSourceIp})
      out += if_filled(set, "-A KUBE-SOURCE-RANGES-FIREWALL", "dst,dst,src", "RETURN");
    return out + "-A KUBE-SOURCE-RANGES-FIREWALL -j DROP\n";
  }

  // What is on our device, and not a port of a Service, must not lead to processes of this node.
  std::string filter() const {
    std::string out;
    for (const SetId set :
         {SetId::LoadBalancer, SetId::ClusterIp, SetId::ExternalIp, SetId::ExternalIpLocal})
      out += "-A KUBE-IPVS-FILTER" + match(set, "dst,dst") + " -j RETURN\n";
    out += "-A KUBE-IPVS-FILTER" + match(SetId::HealthCheckNodePort, "dst") + " -j RETURN\n";
    out += "-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW" + match(SetId::IpvsIps, "dst") + " -j ";
    out += iptables::reject_target(options_.family);
    return out + '\n';
  }

  static std::string out_filter(const std::vector<Guard>& guards) {
    std::string out;
    for (const auto& guard : guards) {
      out += "-A KUBE-IPVS-OUT-FILTER -s ";
      net::Cidr::host(guard.ip).append_to(out);
      out += " -m ipvs --vproto ";
      base::append_number(out, number_of(guard.protocol));
      out += " --vaddr ";
      guard.ip.append_to(out);
      out += " --vport ";
      base::append_number(out, guard.port);
      out += " -j DROP\n";
    }
    return out;
  }

 private:
  bool has(SetId set) const { return filled_[static_cast<size_t>(set)]; }

  // `fields`: which parts of the packet are looked up, "dst,dst".
  std::string match(SetId set, std::string_view fields) const {
    return " -m set --match-set " + set_name(set, options_.family) + ' ' + std::string(fields);
  }

  std::string if_filled(SetId set, std::string_view head, std::string_view fields,
                        std::string_view target) const {
    if (!has(set)) return {};
    return std::string(head) + comment(comment_of(set)) + match(set, fields) + " -j " +
           std::string(target) + '\n';
  }

  std::string cluster_ip_masquerade() const {
    const bool by_source =
        !options_.masquerade_all && options_.local_traffic.by != plan::LocalTraffic::By::Nothing;
    std::string head = "-A KUBE-SERVICES";
    if (by_source) {
      iptables::append_local_source(head, options_.local_traffic, true);
      iptables::append_local_interface(head, options_.local_traffic, true);
    }
    // Not knowing who is local, at least connections of the node to itself are masqueraded: these have the cluster IP
    // as their source.
    const bool all = options_.masquerade_all || by_source;
    return if_filled(SetId::ClusterIp, head, all ? "dst,dst" : "src,dst", "KUBE-MARK-MASQ");
  }

  // What comes from outside, or goes to this node; not what pods of this node send by a bridge.
  std::string accept_external(SetId set) const {
    if (!has(set)) return {};
    const std::string head = "-A KUBE-SERVICES" + comment(comment_of(set)) + match(set, "dst,dst");
    return head + " -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT\n" +
           head + " -m addrtype --dst-type LOCAL -j ACCEPT\n";
  }

  const Options& options_;
  const Filled& filled_;
};

}  // namespace

std::vector<FixedChain> chains(const Options& options, const Filled& filled,
                               const std::vector<Guard>& guards) {
  const ChainRules rules(options, filled);
  const auto common = common_options(options);
  std::vector<FixedChain> all;
  const auto add = [&](Table table, const char* name, std::string text) {
    all.push_back({.table = table, .name = name, .rules = std::move(text)});
  };
  add(Table::Nat, "KUBE-SERVICES", rules.services());
  add(Table::Nat, "KUBE-POSTROUTING", rules.postrouting());
  add(Table::Nat, "KUBE-NODE-PORT", rules.node_port());
  add(Table::Nat, "KUBE-LOAD-BALANCER", rules.load_balancer());
  add(Table::Nat, "KUBE-MARK-MASQ", iptables::mark_rules(common));
  add(Table::Filter, "KUBE-FORWARD", iptables::forward_rules(common));
  add(Table::Filter, "KUBE-NODE-PORT", rules.health_check());
  add(Table::Filter, "KUBE-PROXY-FIREWALL", rules.firewall());
  add(Table::Filter, "KUBE-SOURCE-RANGES-FIREWALL", rules.source_ranges());
  add(Table::Filter, "KUBE-IPVS-FILTER", rules.filter());
  add(Table::Filter, "KUBE-IPVS-OUT-FILTER", ChainRules::out_filter(guards));
  return all;
}

const std::vector<Jump>& jumps() {
  static const std::string kPortals = comment("kubernetes service portals");
  static const std::string kPostrouting = comment("kubernetes postrouting rules");
  static const std::string kForward = comment("kubernetes forwarding rules");
  static const std::string kHealth = comment("kubernetes health check rules");
  static const std::string kFirewall = comment("kube-proxy firewall rules");
  static const std::string kAccess = comment("kubernetes ipvs access filter");
  static const std::vector<Jump> kJumps{
      {Table::Nat, "OUTPUT", "KUBE-SERVICES", kPortals, true},
      {Table::Nat, "PREROUTING", "KUBE-SERVICES", kPortals, true},
      {Table::Nat, "POSTROUTING", "KUBE-POSTROUTING", kPostrouting, true},
      {Table::Filter, "FORWARD", "KUBE-FORWARD", kForward, true},
      {Table::Filter, "INPUT", "KUBE-NODE-PORT", kHealth, true},
      {Table::Filter, "INPUT", "KUBE-PROXY-FIREWALL", kFirewall, true},
      {Table::Filter, "FORWARD", "KUBE-PROXY-FIREWALL", kFirewall, true},
      {Table::Filter, "INPUT", "KUBE-IPVS-FILTER", kAccess, true},
      {Table::Filter, "OUTPUT", "KUBE-IPVS-OUT-FILTER", kAccess, true},
  };
  return kJumps;
}

iptables::Owned owned() { return iptables::owned(chains({}, {}, {}), jumps()); }

}  // namespace ipvs
