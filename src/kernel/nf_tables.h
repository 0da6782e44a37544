// Rules for nf_tables, as values, and the netlink messages that install them.
//
//   Batch batch(Family::V4, "my-table");
//   batch.add_table();
//   batch.add_set({.name = "doomed", .key = {FieldType::Ipv4, FieldType::Port}, .timeout = 60s});
//   batch.add_chain({.name = "in", .hook = Chain::Hook{NF_INET_PRE_ROUTING, -150}});
//   batch.add_rule("in", {{Load::meta(NFT_META_L4PROTO), Compare::equal<uint8_t>(IPPROTO_TCP),
//                         RejectWithReset{}}});
//   TRY(batch.commit("install my rules"));
//
// A batch is one transaction of the kernel: all of it happens, or nothing. Adding what is there already is no error,
// except for rules, which are then there twice.
#pragma once

#include <linux/netfilter/nf_tables.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "kernel/netlink.h"
#include "net/ip.h"

namespace kernel::nf_tables {

// NFPROTO_IPV4 or NFPROTO_IPV6.
uint8_t protocol_family(net::Family family);

// Types of the notes that the kernel keeps with tables, chains, rules and elements.
inline constexpr uint8_t kComment = 0;
inline constexpr uint8_t kRuleTag = 0x6b;  // the program nft skips types that it does not know

// What keys and values of a set are made of. Each field takes a multiple of four bytes, in the set as in the registers.
enum class FieldType : uint8_t { Ipv4, Ipv6, Protocol, Port, Mark };

struct Set {
  std::string name;
  std::vector<FieldType> key;
  enum class Holds : uint8_t { Keys, Verdicts, Values } holds = Holds::Keys;
  std::vector<FieldType> value{};
  bool interval = false;                // elements are ranges
  bool dynamic = false;                 // rules may add elements
  uint32_t size = 0;                    // most elements; 0 = no limit
  std::chrono::milliseconds timeout{};  // how long an element stays; 0 = for ever
  std::string comment{};
};

struct Chain {
  std::string name;
  struct Hook {
    uint32_t number = 0;  // NF_INET_PRE_ROUTING and the like
    int32_t priority = 0;
    std::string type = "filter";
    bool accepts = true;  // what no rule has decided about; else it is dropped
  };
  std::optional<Hook> hook{};  // none: others must lead there
  std::string comment{};
};

// A four-byte register: number 0 to 15. Longer values take several in a row.
using Register = uint32_t;

// Puts something about the packet into a register.
struct Load {
  enum class From : uint8_t { Meta, Conntrack, OriginalTuple, NetworkHeader, TransportHeader };
  From from = From::Meta;
  uint32_t what = 0;  // NFT_META_..., NFT_CT_..., or the offset in the header
  uint32_t size = 0;  // of a piece of a header, in bytes
  Register to = 0;

  static Load meta(uint32_t key) { return {From::Meta, key, 0, 0}; }
  static Load conntrack(uint32_t key) { return {From::Conntrack, key, 0, 0}; }
};

// Puts a random number out of `modulus`, from `offset` on, into a register.
struct Draw {
  uint32_t modulus = 1;
  uint32_t offset = 0;
  Register to = 0;
};

// Puts into register 0 what kind of address the source or the destination is: RTN_LOCAL and the like.
struct LoadAddressType {
  bool source = true;
};

// Keeps some bits of register 0, and flips some.
struct Mask {
  std::vector<uint8_t> bits;
  std::vector<uint8_t> flip{};  // as long as `bits`, or empty for none

  template <typename T>
  static Mask of(T value) {
    Mask mask{std::vector<uint8_t>(sizeof value)};
    std::memcpy(mask.bits.data(), &value, sizeof value);
    return mask;
  }
};

// Goes on with the rule only if register 0 holds the value, or only if it does not.
struct Compare {
  bool equals = true;
  std::vector<uint8_t> value;

  template <typename T>
  static Compare equal(T value) {
    return {true, Mask::of(value).bits};
  }
  template <typename T>
  static Compare unequal(T value) {
    return {false, Mask::of(value).bits};
  }
};

// Goes on only if the set has the key that stands in the registers from 0 on.
struct Lookup {
  std::string set;
  // What a map has for the key: nothing is done with it, it goes into registers from 0 on, or it is the verdict.
  enum class Then : uint8_t { GoOn, Load, Obey } then = Then::GoOn;
};

// What becomes of the packet.
struct Obey {
  int32_t verdict = 0;     // NF_DROP, NFT_JUMP and the like
  std::string chain = {};  // of NFT_JUMP and NFT_GOTO
};

// Puts register 0 into the mark of the packet.
struct SetMark {};

// Sends the connection elsewhere: to the address in register 0 and the port in register `port`.
struct Redirect {
  net::Family family = net::Family::V4;
  Register port = 1;
};

// Gives the connection the address of the interface that it leaves by as source, and a random port.
struct Masquerade {};

// Puts the key in the registers from 0 on, with the value from register `value` on, into a map, or makes the element
// that is there young again.
struct Update {
  std::string map;
  Register value = 0;
  std::chrono::milliseconds timeout{};
};

// Answers a TCP segment with a reset, and drops it. Resets themselves are dropped and not answered.
struct RejectWithReset {};

// Answers that the port is unreachable, and drops the packet.
struct RejectWithUnreachable {
  net::Family family = net::Family::V4;
};

// Keeps the packet away from connection tracking.
struct NoTrack {};

using Expression =
    std::variant<Load, Draw, LoadAddressType, Mask, Compare, Lookup, Obey, SetMark, Redirect,
                 Masquerade, Update, RejectWithReset, RejectWithUnreachable, NoTrack>;
struct Rule {
  std::vector<Expression> expressions;
  std::string comment{};
  std::vector<uint8_t> tag{};  // nobody but us looks at it
};

// What is written of one element.
struct Element {
  std::span<const uint8_t> key;
  std::span<const uint8_t>
      key_end{};                     // in sets of ranges with several fields: the last of the range
  bool ends_range = false;           // in sets of ranges with one field: the first behind the range
  std::span<const uint8_t> value{};  // in maps of values
  std::optional<int32_t> verdict{};  // in maps of verdicts, see Obey
  std::string_view chain{};
  std::string_view comment{};
  std::chrono::milliseconds timeout{};  // 0: that of the set
  std::chrono::milliseconds left{};     // of it; 0: all
};

// A transaction on one table.
class Batch {
 public:
  Batch(net::Family family, std::string table);

  void add_table(std::string_view comment = {});
  void delete_table();
  void add_chain(const Chain& chain);
  void delete_chain(const std::string& chain);
  void add_set(const Set& set);
  void delete_set(const std::string& set);
  void flush_set(const std::string& set);
  void flush_chain(const std::string& chain);
  void flush_all_chains();
  void add_rule(const std::string& chain, const Rule& rule);
  // An element that is there already stays as it is; if it has another value, nothing of the batch happens.
  void add_element(std::string_view set, const Element& element);
  // Of `element` only the key counts. If it is not there, nothing of the batch happens.
  void delete_element(std::string_view set, const Element& element);

  bool empty() const { return messages_ == 0; }
  size_t size_bytes() const { return bytes_.size(); }

  // Blocks until the kernel has done it. NotFound may mean that it lacks one of the expressions.
  // REQUIRES: not empty. A batch is committed once.
  base::Result<> commit(const std::string& what);
  base::Result<> commit(netlink::Conversation& conversation, const std::string& what);

 private:
  // One message to the table, filled in by `fill`.
  template <typename Fill>
  void add(uint16_t type, uint16_t flags, uint16_t table_attribute, Fill&& fill);
  void append(const netlink::Message& message);

  // Elements of one set go into one message, until it is full.
  void open_elements(uint16_t type, std::string_view set);
  void close_elements();
  void put_element(uint16_t type, std::string_view set, const Element& element);
  // Says which message the kernel did not like.
  std::string describe(uint32_t sequence) const;

  uint8_t family_;
  std::string table_;
  std::vector<char> bytes_;
  size_t last_ = 0;  // where the last message begins
  uint32_t messages_ = 0;
  uint32_t set_id_ = 0;
  uint16_t open_type_ = 0;  // of the message of elements that is not closed; 0: none
  std::string open_set_;
  size_t open_list_ = 0;  // where its list begins
};

}  // namespace kernel::nf_tables
