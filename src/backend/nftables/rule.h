// Rules of mode nftables, as values. Pure.
//
// One value has two forms: the words of the program nft (text.h), and the expressions of the kernel (encode.h). What is
// printed is what is sent.
//
//   Rule{{Within{Field::SourceAddress, pods, true}, Mark{0x4000}}, "masquerade traffic from outside"}
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "net/ip.h"

namespace nftables {

// What a packet carries. Words are those of IPv4.
enum class Field : uint8_t {
  SourceAddress,       // ip saddr
  DestinationAddress,  // ip daddr
  Protocol,            // meta l4proto
  DestinationPort,     // th dport
  OriginalAddress,     // ct original ip daddr: where the client sent it
  OriginalPort,        // ct original proto-dst
};

// A number out of `count`, from `offset` on; each connection draws its own.
struct Draw {  // numgen random mod COUNT offset OFFSET
  uint32_t count = 1;
  uint32_t offset = 0;
  auto operator<=>(const Draw&) const = default;
};

// What is looked up in a set: the parts one behind the other.
using Key = std::vector<std::variant<Field, Draw>>;

// The sets and maps of the table; layout.h says what they hold.
enum class SetId : uint8_t {
  ClusterIps,
  NodePortIps,
  HairpinConnections,
  ServiceIps,
  ServiceNodePorts,
  NoEndpointServices,
  NoEndpointNodePorts,
  FirewallIps,
  // Up to here they are the original's.
  Endpoints,
  NodePortEndpoints,
  AllowedSources,
  ServiceCidrs,
  StickyServices,
  StickyNodePorts,
  Affinity,
  Fingerprint,
};
inline constexpr std::array kAllSets{
    SetId::ClusterIps,          SetId::NodePortIps,      SetId::HairpinConnections,
    SetId::ServiceIps,          SetId::ServiceNodePorts, SetId::NoEndpointServices,
    SetId::NoEndpointNodePorts, SetId::FirewallIps,      SetId::Endpoints,
    SetId::NodePortEndpoints,   SetId::AllowedSources,   SetId::ServiceCidrs,
    SetId::StickyServices,      SetId::StickyNodePorts,  SetId::Affinity,
    SetId::Fingerprint};
inline constexpr size_t kSets = kAllSets.size();

// Conditions: the rule goes on only if they hold.
struct New {};         // ct state new
struct Translated {};  // ct status dnat
struct Within {        // ip saddr CIDR, ip saddr != CIDR
  Field field = Field::SourceAddress;
  net::Cidr cidr;
  bool inverted = false;
};
struct Enters {  // iifname NAME, iifname != NAME; a prefix as NAME*
  std::string interface;
  bool prefix = false;
  bool inverted = false;
};
struct IsLocal {  // fib saddr type local
  Field field = Field::SourceAddress;
};
struct Marked {  // meta mark & BITS != 0
  uint32_t bits = 0;
};
struct Member {  // KEY @SET
  Key key;
  SetId set{};
};

// Deeds.
struct Dispatch {  // KEY vmap @MAP: the verdict that the map has, if it has one
  Key key;
  SetId map{};
};
struct Mark {  // meta mark set meta mark | BITS, or ^ to take them away again
  uint32_t bits = 0;
  bool toggle = false;
};
struct Verdict {
  enum class Kind : uint8_t { Drop, Return, Jump, Goto };
  Kind kind = Kind::Drop;
  std::string chain;  // of Jump and Goto
};
struct Reject {};
struct Masquerade {};  // masquerade fully-random
struct Translate {     // dnat ip to KEY map @MAP: nothing if the map has no such key
  Key key;
  SetId map{};
};
struct Remember {  // update @MAP { KEY timeout T : DATA }
  SetId map{};
  Key key;
  Key data;
  std::chrono::seconds timeout{};
};

using Statement = std::variant<New, Translated, Within, Enters, IsLocal, Marked, Member, Dispatch,
                               Mark, Verdict, Reject, Masquerade, Translate, Remember>;

struct Rule {
  std::vector<Statement> statements;
  std::string comment{};
};

}  // namespace nftables
