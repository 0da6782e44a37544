// The fixed part of our rules: jumps from the built-in chains, and the chains that exist whatever
// Services there are. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/iptables/rules.h"

namespace iptables {

// A rule in a built-in chain that leads into a chain of ours. Put at the top if it is missing, or at
// the bottom, in this order; a rule that is there already is not moved.
struct Jump {
  Table table;
  std::string_view from;    // built-in chain
  std::string_view target;  // our chain
  std::string_view match;   // with a leading space; may be empty
  bool removed_by_cleanup;  // KUBE-FIREWALL is shared with the kubelet and stays
  bool last = false;        // at the bottom

  // "-A INPUT ... -j KUBE-...", as iptables-save prints it.
  std::string rule() const;
};
const std::vector<Jump>& jumps();

inline constexpr std::string_view kCanary = "KUBE-PROXY-CANARY";

// A chain with the same rules whatever Services there are.
struct FixedChain {
  Table table = Table::Filter;
  std::string name;
  std::string rules;         // whole lines
  bool content_ours = true;  // false: only its existence is ensured
  bool shared = false;       // with the kubelet, which may put in something of its own
};
std::vector<FixedChain> fixed_chains(const RuleOptions& options);

// The rules of some of them.
std::string forward_rules(const RuleOptions& options);
std::string postrouting_rules(const RuleOptions& options);
std::string mark_rules(const RuleOptions& options);  // KUBE-MARK-MASQ

// On which addresses node ports are open, in one family.
struct NodePortAddresses {
  bool all = true;
  std::vector<net::IpAddr> addresses;  // if not all
};

// The last rules of KUBE-SERVICES in the nat table: to the node ports.
std::string node_port_tail(const RuleOptions& options, const NodePortAddresses& addresses);

// The chains that --cleanup removes, besides the chains of Services.
std::vector<std::string_view> owned_chains(Table table);

}  // namespace iptables
