// The rules of one Service, written the way iptables-save prints them.
//
// render_service() is pure. Its text is the only form that rules have in this backend: it is what
// iptables-restore gets, what is compared with the kernel's dump, and what `kube-proxy render`
// shows. docs/architecture.md tells how the chains of a Service hang together.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codec/chain_hash.h"
#include "net/ip.h"
#include "plan/local_traffic.h"
#include "plan/plan.h"

namespace iptables {

enum class Table : uint8_t { Mangle, Filter, Nat };
inline constexpr std::array kTables{Table::Mangle, Table::Filter, Table::Nat};
std::string_view name(Table table);

// Chains that belong to one Service port, all in the nat table.
enum class ChainKind : uint8_t {
  Endpoint,  // KUBE-SEP-: rewrite to one endpoint
  Cluster,   // KUBE-SVC-: pick among the endpoints of the cluster
  Local,     // KUBE-SVL-: pick among the endpoints of this node
  External,  // KUBE-EXT-: entry for external destinations
  Firewall,  // KUBE-FW-:  source ranges of the load-balancer IPs
};

struct ChainName {
  ChainKind kind = ChainKind::Endpoint;
  codec::ChainHash hash{};

  void append_to(std::string& out) const;
  std::string str() const;
  auto operator<=>(const ChainName&) const = default;
  bool operator==(const ChainName&) const = default;
};

// The hash in the names of a Service port's own chains; `port` is PortPlan::name.
codec::ChainHash port_hash(std::string_view port, net::Protocol protocol);

// Is this the name of a chain of some Service? Such chains are ours to delete when stale.
bool is_service_chain(std::string_view name);

// Chains that all Services share. Each Service owns some lines in them.
enum class SharedChain : uint8_t {
  FilterServices,
  FilterExternal,
  FilterNodePorts,
  FilterFirewall,
  NatServices,
  NatNodePorts,
};
inline constexpr size_t kSharedChains = 6;
std::string_view name(SharedChain chain);
Table table_of(SharedChain chain);

// Settings that shape rules; the same for all Services of one family.
struct RuleOptions {
  net::Family family = net::Family::V4;
  uint32_t masquerade_mark = 1U << 14;
  bool masquerade_all = false;
  bool random_fully = true;
  bool localhost_node_ports = true;  // as configured and possible in this family
  bool invalid_drop = true;          // unless conntrack is liberal about TCP windows
  bool count_invalid = true;         // nfacct counter for dropped packets in invalid state
  bool count_localhost = true;       // nfacct counter for node ports on loopback
  plan::LocalTraffic local_traffic;
};

// Packets that come, or with `negated` do not come, from pods of this node: " -s 10.244.0.0/16", or " ! -i cni0".
// Nothing if they are recognised otherwise. iptables-save prints a destination between the two.
void append_local_source(std::string& out, const plan::LocalTraffic& local, bool negated);
void append_local_interface(std::string& out, const plan::LocalTraffic& local, bool negated);

// The target that refuses with ICMP.
std::string_view reject_target(net::Family family);

struct Chain {
  ChainName name;
  uint64_t digest = 0;  // of its rules: equal digests mean equal rules
  uint32_t begin = 0;   // its rules in ServiceRules::text, each with a newline
  uint32_t end = 0;
};

struct ServiceRules {
  std::array<std::string, kSharedChains> shared;  // whole lines: "-A KUBE-SERVICES ...\n"
  std::vector<Chain> chains;                      // endpoints first: a target before its users
  std::string text;

  std::string_view rules(const Chain& chain) const {
    return std::string_view(text).substr(chain.begin, chain.end - chain.begin);
  }
  void clear();
};

// Digest of the rules of a chain, line by line; DumpReader computes the same from a dump.
class RuleDigest {
 public:
  void add_line(std::string_view line);    // without its newline
  void add_lines(std::string_view lines);  // each with a newline
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0x9e3779b97f4a7c15;
};
uint64_t digest_of(std::string_view lines);

// Renders into `out` (cleared first; reuse it to save allocations).
// With `large` set, rules of endpoints carry no comments: Kubernetes' large-cluster form.
void render_service(const plan::ServicePlan& plan, const RuleOptions& options, bool large,
                    ServiceRules& out);

}  // namespace iptables
