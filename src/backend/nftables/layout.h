// The table of mode nftables: its sets, its chains and their rules. Pure. docs/nftables.md tells the idea.
//
// The number of sets does not depend on Services. Chains are few: those that every packet passes, one for each kind of
// front end (a Class), and one for each time-out of session affinity.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/nftables/rule.h"
#include "net/ip.h"
#include "plan/local_traffic.h"

namespace nftables {

inline constexpr const char* kTable = "kube-proxy";
inline constexpr const char* kTableComment = "rules for kube-proxy";

// What shapes rules; the same for all Services of one family.
struct Options {
  net::Family family = net::Family::V4;
  uint32_t masquerade_mark = 1U << 14;
  bool masquerade_all = false;
  plan::LocalTraffic local_traffic;
  bool node_ports_everywhere = false;
  bool localhost_node_ports = false;  // IPv4: 127.0.0.1 is among the addresses of node ports
};

// Of which a key or a value is made. Each takes a multiple of four bytes.
enum class FieldType : uint8_t { Address, Protocol, Port, Mark };

struct SetLayout {
  SetId id{};
  std::string_view name;
  std::vector<FieldType> key;
  enum class Holds : uint8_t { Keys, Verdicts, Values } holds = Holds::Keys;
  std::vector<FieldType> value;  // Holds::Values
  bool interval = false;         // elements are ranges of keys
  bool dynamic = false;          // packets add elements, which time out
  std::string_view comment;
};
const SetLayout& layout_of(SetId id);
std::string_view name(SetId id);
// All sets that the table has, in the order in which they are made.
std::vector<SetId> sets_of(const Options& options);

// Does it hold endpoints? The kernel is told the size of those.
constexpr bool is_endpoint_map(SetId id) {
  return id == SetId::Endpoints || id == SetId::NodePortEndpoints;
}

// In bytes, padding included.
size_t key_size(SetId id, net::Family family);
size_t value_size(SetId id, net::Family family);

// Room for this many elements and for some more: the kernel reserves it when the map is made.
uint32_t capacity_for(size_t elements);
// Of the maps of endpoints.
struct Capacity {
  uint32_t endpoints = 0;
  uint32_t node_port_endpoints = 0;
};
// Most entries of session affinity at a time.
inline constexpr uint32_t kAffinityCapacity = 1U << 20;
// What the kernel is told as size of a set, 0 for none.
uint32_t declared_size(SetId id, const Capacity& capacity);

// Endpoints of the node-local list are numbered from here on, those of the other list from 0.
inline constexpr uint32_t kLocalList = 1U << 20;

// What all front ends with the same number of endpoints and the same policies have in common.
struct Class {
  enum class Kind : uint8_t {
    Internal,       // just leads to an endpoint
    External,       // masquerades
    ExternalLocal,  // to endpoints of this node only, except for what comes from this node itself
  };
  Kind kind = Kind::Internal;
  bool node_port = false;  // the front end is a port of the node's addresses
  bool sticky = false;     // session affinity
  uint32_t endpoints = 0;  // numbered from 0
  uint32_t local = 0;      // ExternalLocal: numbered from kLocalList

  auto operator<=>(const Class&) const = default;
};

// Where an element of a verdict map leads.
struct Target {
  enum class Kind : uint8_t { Drop, Reject, CheckSources, Class, Remember };
  Kind kind = Kind::Drop;
  Class front{};           // Kind::Class
  uint32_t timeout_s = 0;  // Kind::Remember

  // Has the target a chain that exists only while something leads there?
  bool on_demand() const { return kind == Kind::Class || kind == Kind::Remember; }
  auto operator<=>(const Target&) const = default;
};
// Empty for Drop.
std::string chain_name(const Target& target);
// The other way round; nothing for a name that is not ours.
std::optional<Target> parse_target(std::string_view chain);
// Those that the rules of an on-demand chain lead to in turn.
std::vector<Target> needed_by(const Target& target);

struct Hook {
  std::string_view type;  // "filter" or "nat"
  std::string_view point;
  uint32_t number = 0;  // NF_INET_PRE_ROUTING and the like
  int32_t priority = 0;
};

struct Chain {
  std::string name;
  std::optional<Hook> hook{};
  std::string_view comment{};
  std::vector<Rule> rules{};
};

// The chains that are always there.
std::vector<Chain> static_chains(const Options& options);
// REQUIRES: target.on_demand().
Chain chain_of(const Target& target, const Options& options);

}  // namespace nftables
