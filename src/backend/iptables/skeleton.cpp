#include "backend/iptables/skeleton.h"

#include <array>

#include "base/text.h"

namespace iptables {
namespace {

#define KP_COMMENT(text) " -m comment --comment \"" text "\""

void append_hex(std::string& out, uint32_t value) {
  char digits[8];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, 16).ptr;
  out += "0x";
  out.append(digits, end);
}

// "0x4000/0x4000"
std::string masked_mark(uint32_t value, uint32_t mask) {
  std::string out;
  append_hex(out, value);
  out += '/';
  append_hex(out, mask);
  return out;
}

// The mark of packets to be masqueraded.
std::string own_mark(const RuleOptions& options) {
  return masked_mark(options.masquerade_mark, options.masquerade_mark);
}

constexpr std::string_view kFirewallRule =
    "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8" KP_COMMENT(
        "block incoming localnet connections") " -m conntrack ! --ctstate "
    "RELATED,ESTABLISHED,DNAT -j DROP\n";

constexpr std::string_view kTailComment =
    KP_COMMENT("kubernetes service nodeports; NOTE: this must be the last rule in this chain");

// Loopback addresses cannot be node ports: never in IPv6, in IPv4 only with localhost node ports.
bool usable(const net::IpAddr& ip, const RuleOptions& options) {
  return !ip.is_loopback() || options.localhost_node_ports;
}

}  // namespace

std::string Jump::rule() const {
  std::string out = "-A ";
  out += from;
  out += match;
  out += " -j ";
  out += target;
  return out;
}

const std::vector<Jump>& jumps() {
  static constexpr std::string_view kExternal =
      " -m conntrack --ctstate NEW" KP_COMMENT("kubernetes externally-visible service portals");
  static constexpr std::string_view kHealth = KP_COMMENT("kubernetes health check service ports");
  static constexpr std::string_view kNewPortals =
      " -m conntrack --ctstate NEW" KP_COMMENT("kubernetes service portals");
  static constexpr std::string_view kForward = KP_COMMENT("kubernetes forwarding rules");
  static constexpr std::string_view kFirewall =
      " -m conntrack --ctstate NEW" KP_COMMENT("kubernetes load balancer firewall");
  static constexpr std::string_view kPortals = KP_COMMENT("kubernetes service portals");
  static constexpr std::string_view kPostrouting = KP_COMMENT("kubernetes postrouting rules");
  static const std::vector<Jump> kJumps{
      {Table::Filter, "INPUT", "KUBE-EXTERNAL-SERVICES", kExternal, true},
      {Table::Filter, "FORWARD", "KUBE-EXTERNAL-SERVICES", kExternal, true},
      {Table::Filter, "INPUT", "KUBE-NODEPORTS", kHealth, true},
      {Table::Filter, "FORWARD", "KUBE-SERVICES", kNewPortals, true},
      {Table::Filter, "OUTPUT", "KUBE-SERVICES", kNewPortals, true},
      {Table::Filter, "FORWARD", "KUBE-FORWARD", kForward, true},
      {Table::Filter, "INPUT", "KUBE-PROXY-FIREWALL", kFirewall, true},
      {Table::Filter, "OUTPUT", "KUBE-PROXY-FIREWALL", kFirewall, true},
      {Table::Filter, "FORWARD", "KUBE-PROXY-FIREWALL", kFirewall, true},
      {Table::Nat, "OUTPUT", "KUBE-SERVICES", kPortals, true},
      {Table::Nat, "PREROUTING", "KUBE-SERVICES", kPortals, true},
      {Table::Nat, "POSTROUTING", "KUBE-POSTROUTING", kPostrouting, true},
      {Table::Filter, "INPUT", "KUBE-FIREWALL", "", false},
      {Table::Filter, "OUTPUT", "KUBE-FIREWALL", "", false},
  };
  return kJumps;
}

std::string forward_rules(const RuleOptions& options) {
  std::string out;
  if (options.invalid_drop) {
    out += "-A KUBE-FORWARD -m conntrack --ctstate INVALID";
    if (options.count_invalid) out += " -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts";
    out += " -j DROP\n";
  }
  out += "-A KUBE-FORWARD" KP_COMMENT("kubernetes forwarding rules") " -m mark --mark " +
         own_mark(options) + " -j ACCEPT\n";
  out += "-A KUBE-FORWARD" KP_COMMENT("kubernetes forwarding conntrack rule")
         " -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n";
  return out;
}

std::string postrouting_rules(const RuleOptions& options) {
  std::string out;
  out += "-A KUBE-POSTROUTING -m mark ! --mark " + own_mark(options) + " -j RETURN\n";
  out +=
      "-A KUBE-POSTROUTING -j MARK --set-xmark " + masked_mark(options.masquerade_mark, 0) + "\n";
  out += "-A KUBE-POSTROUTING" KP_COMMENT(
      "kubernetes service traffic requiring SNAT") " -j MASQUERADE";
  out += options.random_fully ? " --random-fully\n" : "\n";
  return out;
}

std::string mark_rules(const RuleOptions& options) {
  return "-A KUBE-MARK-MASQ -j MARK --set-xmark " + own_mark(options) + "\n";
}

std::vector<FixedChain> fixed_chains(const RuleOptions& options) {
  std::vector<FixedChain> chains;
  for (const Table table : kTables)
    chains.push_back({table, std::string(kCanary), "", false});
  chains.push_back({Table::Filter, "KUBE-FORWARD", forward_rules(options), true});
  // The kubelet has the same chain: without localhost node ports its content is none of our business.
  const bool firewall_ours = options.localhost_node_ports;
  chains.push_back({Table::Filter, "KUBE-FIREWALL", firewall_ours ? std::string(kFirewallRule) : "",
                    firewall_ours, true});
  chains.push_back({Table::Nat, "KUBE-POSTROUTING", postrouting_rules(options), true});
  chains.push_back({Table::Nat, "KUBE-MARK-MASQ", mark_rules(options), true});
  return chains;
}

std::string node_port_tail(const RuleOptions& options, const NodePortAddresses& addresses) {
  std::string out;
  if (addresses.all) {
    out += "-A KUBE-SERVICES";
    if (options.family == net::Family::V6) {
      out += " ! -d ::1/128";
    } else if (!options.localhost_node_ports) {
      out += " ! -d 127.0.0.0/8";
    }
    out += kTailComment;
    out += " -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n";
    return out;
  }
  for (const auto& ip : addresses.addresses) {
    if (!usable(ip, options)) continue;
    out += "-A KUBE-SERVICES -d ";
    net::Cidr::host(ip).append_to(out);
    out += kTailComment;
    out += " -j KUBE-NODEPORTS\n";
  }
  return out;
}

std::vector<std::string_view> owned_chains(Table table) {
  switch (table) {
    case Table::Mangle:
      return {kCanary};
    case Table::Filter:
      return {"KUBE-SERVICES",  "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD",
              "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL",    kCanary};
    case Table::Nat:
      return {"KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", kCanary};
  }
  return {};
}

}  // namespace iptables
