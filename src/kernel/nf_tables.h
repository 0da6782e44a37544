// Rules for nf_tables, as values, and the netlink messages that install them.
//
//   Batch batch(Family::V4, "my-table");
//   batch.add_table();
//   batch.add_set({.name = "doomed", .key = {FieldType::Ipv4, FieldType::Port}, .timeout = 60s});
//   batch.add_chain({.name = "in", .hook = NF_INET_PRE_ROUTING, .priority = -150});
//   batch.add_rule("in", {Load::meta(NFT_META_L4PROTO), Compare::equal<uint8_t>(IPPROTO_TCP),
//                        RejectWithReset{}});
//   TRY(batch.commit("install my rules"));
//
// A batch is one transaction of the kernel: all of it happens, or nothing. Adding what is there already is no error,
// except for rules, which are then there twice.
#pragma once

#include <linux/netfilter/nf_tables.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "kernel/netlink.h"
#include "net/ip.h"

namespace kernel::nf_tables {

// What the key of a set is made of. Each field takes a multiple of four bytes, in the set as in the registers.
enum class FieldType : uint8_t { Ipv4, Ipv6, Port };

struct Set {
  std::string name;
  std::vector<FieldType> key;
  std::chrono::milliseconds timeout{};  // how long an element stays
};

struct Chain {
  std::string name;
  uint32_t hook = 0;  // NF_INET_PRE_ROUTING and the like
  int32_t priority = 0;
};

// A four-byte register: number 0 to 15. Longer values take several in a row.
using Register = uint32_t;

// Puts something about the packet into a register.
struct Load {
  enum class From : uint8_t { Meta, Conntrack, NetworkHeader, TransportHeader };
  From from = From::Meta;
  uint32_t what = 0;  // NFT_META_..., NFT_CT_..., or the offset in the header
  uint32_t size = 0;  // of a piece of a header, in bytes
  Register to = 0;

  static Load meta(uint32_t key) { return {From::Meta, key, 0, 0}; }
  static Load conntrack(uint32_t key) { return {From::Conntrack, key, 0, 0}; }
};

// Keeps some bits of register 0.
struct Mask {
  std::vector<uint8_t> bits;

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
};

// Answers a TCP segment with a reset, and drops it. Resets themselves are dropped and not answered.
struct RejectWithReset {};

// Keeps the packet away from connection tracking.
struct NoTrack {};

using Expression = std::variant<Load, Mask, Compare, Lookup, RejectWithReset, NoTrack>;
using Rule = std::vector<Expression>;

// A transaction on one table.
class Batch {
 public:
  Batch(net::Family family, std::string table);

  void add_table();
  void delete_table();
  void add_chain(const Chain& chain);
  void add_set(const Set& set);
  void flush_chain(const std::string& chain);
  void add_rule(const std::string& chain, const Rule& rule);
  // `keys` stand one behind the other, each `key_size` bytes. Elements that are there already stay as they are.
  void add_elements(const std::string& set, std::span<const uint8_t> keys, size_t key_size);

  // Blocks until the kernel has done it. NotFound may mean that it lacks one of the expressions.
  base::Result<> commit(const std::string& what);

 private:
  // One message to the table, filled in by `fill`.
  template <typename Fill>
  void add(uint16_t type, uint16_t flags, uint16_t table_attribute, Fill&& fill);
  void append(const netlink::Message& message);

  uint8_t family_;
  std::string table_;
  std::vector<char> bytes_;
  size_t last_ = 0;  // where the last message begins
  uint32_t set_id_ = 0;
};

}  // namespace kernel::nf_tables
