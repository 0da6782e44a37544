#include "kernel/nf_tables.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "kernel/attributes.h"
#include "kernel/nf_tables_read.h"

namespace kernel::nf_tables {
namespace {

using base::Result;
using netlink::Conversation;
using netlink::Message;

// A list of elements is one attribute, whose size is a number of 16 bits.
constexpr size_t kMaxList = 60000;

// As the program nft numbers them, which prints by them what a set holds.
constexpr uint32_t kVerdictType = 0xffffff00;
constexpr uint32_t kVerdictSize = 16;
enum class ByteOrder : uint32_t { OfEachField = 0, Machine = 1, Network = 2 };
enum UserData : uint8_t { kKeyByteOrder = 0, kDataByteOrder = 1, kSetComment = 7 };

struct FieldFacts {
  uint32_t size;    // in a register
  uint32_t length;  // of the field itself
  uint32_t type;    // nft's number
  ByteOrder order;
};

FieldFacts facts(FieldType field) {
  switch (field) {
    case FieldType::Ipv4:
      return {4, 4, 7, ByteOrder::Network};
    case FieldType::Ipv6:
      return {16, 16, 8, ByteOrder::Network};
    case FieldType::Protocol:
      return {4, 1, 12, ByteOrder::Network};
    case FieldType::Port:
      return {4, 2, 13, ByteOrder::Network};
    case FieldType::Mark:
      return {4, 4, 19, ByteOrder::Machine};
  }
  __builtin_unreachable();
}

struct TypeFacts {
  uint32_t size = 0;
  uint32_t type = 0;
  ByteOrder order = ByteOrder::OfEachField;
};

TypeFacts facts(const std::vector<FieldType>& fields) {
  TypeFacts all;
  for (const FieldType field : fields) {
    all.size += facts(field).size;
    all.type = all.type << 6 | facts(field).type;
  }
  if (fields.size() == 1) all.order = facts(fields.front()).order;
  return all;
}

// Notes that the kernel keeps for us: type, length, value.
class Notes {
 public:
  Notes& add(uint8_t type, std::span<const uint8_t> value) {
    bytes_.push_back(type);
    bytes_.push_back(static_cast<uint8_t>(value.size()));
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    return *this;
  }
  Notes& add(uint8_t type, ByteOrder order) {
    std::array<uint8_t, sizeof order> value{};
    std::memcpy(value.data(), &order, sizeof order);
    return add(type, value);
  }
  // With the zero that nft expects at its end.
  Notes& add_comment(uint8_t type, std::string_view comment) {
    if (comment.empty()) return *this;
    std::vector<uint8_t> value(comment.begin(), comment.end());
    value.push_back(0);
    return add(type, value);
  }
  void put(nlmsghdr* header, uint16_t attribute) const {
    if (!bytes_.empty()) mnl_attr_put(header, attribute, bytes_.size(), bytes_.data());
  }

 private:
  std::vector<uint8_t> bytes_;
};

// Attributes of nf_tables are big-endian.
void put_u32(nlmsghdr* header, uint16_t attribute, uint32_t value) {
  mnl_attr_put_u32(header, attribute, htonl(value));
}

void put_register(nlmsghdr* header, uint16_t attribute, Register number) {
  put_u32(header, attribute, NFT_REG32_00 + number);
}

template <typename Fill>
void put_nested(nlmsghdr* header, uint16_t attribute, Fill&& fill) {
  nlattr* nest = mnl_attr_nest_start(header, attribute);
  fill();
  mnl_attr_nest_end(header, nest);
}

void put_value(nlmsghdr* header, uint16_t attribute, std::span<const uint8_t> value) {
  put_nested(header, attribute,
             [&] { mnl_attr_put(header, NFTA_DATA_VALUE, value.size(), value.data()); });
}

// One expression: its name, and what it takes.
template <typename Fill>
void put_expression(nlmsghdr* header, const char* name, Fill&& fill) {
  put_nested(header, NFTA_LIST_ELEM, [&] {
    mnl_attr_put_strz(header, NFTA_EXPR_NAME, name);
    put_nested(header, NFTA_EXPR_DATA, fill);
  });
}

void put_header_load(nlmsghdr* header, const Load& load, uint32_t base) {
  put_expression(header, "payload", [&] {
    put_register(header, NFTA_PAYLOAD_DREG, load.to);
    put_u32(header, NFTA_PAYLOAD_BASE, base);
    put_u32(header, NFTA_PAYLOAD_OFFSET, load.what);
    put_u32(header, NFTA_PAYLOAD_LEN, load.size);
  });
}

void put(nlmsghdr* header, const Load& load) {
  switch (load.from) {
    case Load::From::Meta:
      return put_expression(header, "meta", [&] {
        put_u32(header, NFTA_META_KEY, load.what);
        put_register(header, NFTA_META_DREG, load.to);
      });
    case Load::From::Conntrack:
      return put_expression(header, "ct", [&] {
        put_u32(header, NFTA_CT_KEY, load.what);
        put_register(header, NFTA_CT_DREG, load.to);
      });
    case Load::From::OriginalTuple:
      return put_expression(header, "ct", [&] {
        put_u32(header, NFTA_CT_KEY, load.what);
        put_register(header, NFTA_CT_DREG, load.to);
        mnl_attr_put_u8(header, NFTA_CT_DIRECTION, 0);
      });
    case Load::From::NetworkHeader:
      return put_header_load(header, load, NFT_PAYLOAD_NETWORK_HEADER);
    case Load::From::TransportHeader:
      return put_header_load(header, load, NFT_PAYLOAD_TRANSPORT_HEADER);
  }
}

void put(nlmsghdr* header, const Mask& mask) {
  put_expression(header, "bitwise", [&] {
    put_register(header, NFTA_BITWISE_SREG, 0);
    put_register(header, NFTA_BITWISE_DREG, 0);
    put_u32(header, NFTA_BITWISE_LEN, static_cast<uint32_t>(mask.bits.size()));
    put_value(header, NFTA_BITWISE_MASK, mask.bits);
    put_value(header, NFTA_BITWISE_XOR,
              mask.flip.empty() ? std::vector<uint8_t>(mask.bits.size()) : mask.flip);
  });
}

void put(nlmsghdr* header, const Compare& compare) {
  put_expression(header, "cmp", [&] {
    put_register(header, NFTA_CMP_SREG, 0);
    put_u32(header, NFTA_CMP_OP, compare.equals ? NFT_CMP_EQ : NFT_CMP_NEQ);
    put_value(header, NFTA_CMP_DATA, compare.value);
  });
}

void put(nlmsghdr* header, const Lookup& lookup) {
  put_expression(header, "lookup", [&] {
    mnl_attr_put_strz(header, NFTA_LOOKUP_SET, lookup.set.c_str());
    put_register(header, NFTA_LOOKUP_SREG, 0);
    if (lookup.then == Lookup::Then::Load) put_register(header, NFTA_LOOKUP_DREG, 0);
    if (lookup.then == Lookup::Then::Obey) put_u32(header, NFTA_LOOKUP_DREG, NFT_REG_VERDICT);
  });
}

void put(nlmsghdr* header, const Draw& draw) {
  put_expression(header, "numgen", [&] {
    put_register(header, NFTA_NG_DREG, draw.to);
    put_u32(header, NFTA_NG_MODULUS, draw.modulus);
    put_u32(header, NFTA_NG_TYPE, NFT_NG_RANDOM);
    put_u32(header, NFTA_NG_OFFSET, draw.offset);
  });
}

void put(nlmsghdr* header, const LoadAddressType& load) {
  put_expression(header, "fib", [&] {
    put_u32(header, NFTA_FIB_FLAGS, load.source ? NFTA_FIB_F_SADDR : NFTA_FIB_F_DADDR);
    put_u32(header, NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
    put_register(header, NFTA_FIB_DREG, 0);
  });
}

void put_verdict(nlmsghdr* header, uint16_t attribute, int32_t verdict, const std::string& chain) {
  put_nested(header, attribute, [&] {
    put_nested(header, NFTA_DATA_VERDICT, [&] {
      put_u32(header, NFTA_VERDICT_CODE, static_cast<uint32_t>(verdict));
      if (!chain.empty()) mnl_attr_put_strz(header, NFTA_VERDICT_CHAIN, chain.c_str());
    });
  });
}

void put(nlmsghdr* header, const Obey& obey) {
  put_expression(header, "immediate", [&] {
    put_u32(header, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    put_verdict(header, NFTA_IMMEDIATE_DATA, obey.verdict, obey.chain);
  });
}

void put(nlmsghdr* header, const SetMark& /*unused*/) {
  put_expression(header, "meta", [&] {
    put_u32(header, NFTA_META_KEY, NFT_META_MARK);
    put_register(header, NFTA_META_SREG, 0);
  });
}

void put(nlmsghdr* header, const Redirect& redirect) {
  put_expression(header, "nat", [&] {
    put_u32(header, NFTA_NAT_TYPE, NFT_NAT_DNAT);
    put_u32(header, NFTA_NAT_FAMILY, protocol_family(redirect.family));
    put_register(header, NFTA_NAT_REG_ADDR_MIN, 0);
    put_register(header, NFTA_NAT_REG_PROTO_MIN, redirect.port);
  });
}

void put(nlmsghdr* header, const Masquerade& /*unused*/) {
  put_expression(header, "masq",
                 [&] { put_u32(header, NFTA_MASQ_FLAGS, NF_NAT_RANGE_PROTO_RANDOM_FULLY); });
}

void put_milliseconds(nlmsghdr* header, uint16_t attribute, std::chrono::milliseconds time) {
  mnl_attr_put_u64(header, attribute, htobe64(static_cast<uint64_t>(time.count())));
}

void put(nlmsghdr* header, const Update& update) {
  put_expression(header, "dynset", [&] {
    mnl_attr_put_strz(header, NFTA_DYNSET_SET_NAME, update.map.c_str());
    put_u32(header, NFTA_DYNSET_OP, NFT_DYNSET_OP_UPDATE);
    put_register(header, NFTA_DYNSET_SREG_KEY, 0);
    put_register(header, NFTA_DYNSET_SREG_DATA, update.value);
    if (update.timeout.count() > 0) put_milliseconds(header, NFTA_DYNSET_TIMEOUT, update.timeout);
  });
}

void put(nlmsghdr* header, const RejectWithUnreachable& reject) {
  const bool v4 = reject.family == net::Family::V4;
  put_expression(header, "reject", [&] {
    put_u32(header, NFTA_REJECT_TYPE, NFT_REJECT_ICMP_UNREACH);
    mnl_attr_put_u8(header, NFTA_REJECT_ICMP_CODE, v4 ? ICMP_PORT_UNREACH : ICMPV6_PORT_UNREACH);
  });
}

void put(nlmsghdr* header, const RejectWithReset& /*unused*/) {
  put_expression(header, "reject", [&] {
    put_u32(header, NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
    mnl_attr_put_u8(header, NFTA_REJECT_ICMP_CODE, 0);
  });
}

void put(nlmsghdr* header, const NoTrack& /*unused*/) {
  put_expression(header, "notrack", [] {});
}

// Ranges in each of several fields.
bool has_several_ranges(const Set& set) { return set.interval && set.key.size() > 1; }

void put_description(nlmsghdr* header, const Set& set) {
  const bool several_ranges = has_several_ranges(set);
  if (set.size == 0 && !several_ranges) return;
  put_nested(header, NFTA_SET_DESC, [&] {
    if (set.size > 0) put_u32(header, NFTA_SET_DESC_SIZE, set.size);
    if (!several_ranges) return;
    put_nested(header, NFTA_SET_DESC_CONCAT, [&] {
      for (const FieldType field : set.key) {
        put_nested(header, NFTA_LIST_ELEM,
                   [&] { put_u32(header, NFTA_SET_FIELD_LEN, facts(field).length); });
      }
    });
  });
}

// Writes attributes at the end of a buffer. libmnl needs to know its size before, and elements are many.
class Raw {
 public:
  explicit Raw(std::vector<char>& out) : out_(out) {}

  void header(uint16_t attribute, size_t payload) {
    const nlattr header{static_cast<uint16_t>(sizeof(nlattr) + payload), attribute};
    append(&header, sizeof header);
  }
  // A nest that end() closes, given what begin() returned.
  size_t begin(uint16_t attribute) {
    const size_t at = out_.size();
    header(attribute | NLA_F_NESTED, 0);
    return at;
  }
  void end(size_t begin) {
    const auto size = static_cast<uint16_t>(out_.size() - begin);
    std::memcpy(out_.data() + begin + offsetof(nlattr, nla_len), &size, sizeof size);
  }

  void put(uint16_t attribute, const void* value, size_t size) {
    header(attribute, size);
    append(value, size);
    out_.resize(MNL_ALIGN(out_.size()));
  }
  void number(uint16_t attribute, uint32_t value) {
    const uint32_t big = htonl(value);
    put(attribute, &big, sizeof big);
  }
  void milliseconds(uint16_t attribute, std::chrono::milliseconds time) {
    const uint64_t big = htobe64(static_cast<uint64_t>(time.count()));
    put(attribute, &big, sizeof big);
  }
  void value(uint16_t attribute, std::span<const uint8_t> value) {
    const size_t nest = begin(attribute);
    put(NFTA_DATA_VALUE, value.data(), value.size());
    end(nest);
  }
  void verdict(uint16_t attribute, int32_t code, std::string_view chain) {
    const size_t data = begin(attribute);
    const size_t nest = begin(NFTA_DATA_VERDICT);
    number(NFTA_VERDICT_CODE, static_cast<uint32_t>(code));
    if (!chain.empty()) text(NFTA_VERDICT_CHAIN, chain);
    end(nest);
    end(data);
  }
  void comment(uint16_t attribute, std::string_view comment) {
    const std::array<uint8_t, 2> note{kComment, static_cast<uint8_t>(comment.size() + 1)};
    header(attribute, note.size() + comment.size() + 1);
    append(note.data(), note.size());
    append(comment.data(), comment.size());
    out_.resize(MNL_ALIGN(out_.size() + 1));
  }

 private:
  void text(uint16_t attribute, std::string_view text) {
    header(attribute, text.size() + 1);
    append(text.data(), text.size());
    out_.resize(MNL_ALIGN(out_.size() + 1));
  }
  void append(const void* from, size_t size) {
    const auto* bytes = static_cast<const char*>(from);
    out_.insert(out_.end(), bytes, bytes + size);
  }

  std::vector<char>& out_;
};

// "new element of service-ips"
std::string describe_message(const nlmsghdr& message) {
  struct Kind {
    uint16_t type;
    std::string_view words;
    uint16_t name;  // the attribute
  };
  constexpr std::array<Kind, 10> kKinds{{
      {NFT_MSG_NEWTABLE, "new table", NFTA_TABLE_NAME},
      {NFT_MSG_DELTABLE, "deletion of table", NFTA_TABLE_NAME},
      {NFT_MSG_NEWCHAIN, "new chain", NFTA_CHAIN_NAME},
      {NFT_MSG_DELCHAIN, "deletion of chain", NFTA_CHAIN_NAME},
      {NFT_MSG_NEWRULE, "new rule of", NFTA_RULE_CHAIN},
      {NFT_MSG_DELRULE, "deletion of the rules of", NFTA_RULE_CHAIN},
      {NFT_MSG_NEWSET, "new set", NFTA_SET_NAME},
      {NFT_MSG_DELSET, "deletion of set", NFTA_SET_NAME},
      {NFT_MSG_NEWSETELEM, "new element of", NFTA_SET_ELEM_LIST_SET},
      {NFT_MSG_DELSETELEM, "deletion of an element of", NFTA_SET_ELEM_LIST_SET},
  }};
  const auto kind = std::ranges::find(kKinds, message.nlmsg_type & 0xff, &Kind::type);
  if (kind == kKinds.end()) return "message " + std::to_string(message.nlmsg_type & 0xff);
  std::string words(kind->words);
  for (const nlattr& attribute : netlink::Attributes::of(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(&attribute) == kind->name)
      words += std::string(" ") + mnl_attr_get_str(&attribute);
  }
  return words;
}

}  // namespace

uint8_t protocol_family(net::Family family) {
  return family == net::Family::V4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
}

Batch::Batch(net::Family family, std::string table)
    : family_(protocol_family(family)), table_(std::move(table)) {
  Message begin;
  begin.close(begin.add_netfilter(NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  append(begin);
}

void Batch::append(const Message& message) {
  close_elements();
  last_ = bytes_.size();
  bytes_.insert(bytes_.end(), message.bytes.data(), message.bytes.data() + message.used);
}

template <typename Fill>
void Batch::add(uint16_t type, uint16_t flags, uint16_t table_attribute, Fill&& fill) {
  Message message;
  nlmsghdr* header = message.add_netfilter(static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type),
                                           flags, family_);
  header->nlmsg_seq = ++messages_;
  mnl_attr_put_strz(header, table_attribute, table_.c_str());
  fill(header);
  message.close(header);
  append(message);
}

void Batch::add_table(std::string_view comment) {
  add(NFT_MSG_NEWTABLE, NLM_F_CREATE, NFTA_TABLE_NAME, [&](nlmsghdr* header) {
    Notes().add_comment(kComment, comment).put(header, NFTA_TABLE_USERDATA);
  });
}

void Batch::delete_table() {
  add(NFT_MSG_DELTABLE, 0, NFTA_TABLE_NAME, [](nlmsghdr*) {});
}

void Batch::add_chain(const Chain& chain) {
  add(NFT_MSG_NEWCHAIN, NLM_F_CREATE, NFTA_CHAIN_TABLE, [&](nlmsghdr* header) {
    mnl_attr_put_strz(header, NFTA_CHAIN_NAME, chain.name.c_str());
    if (chain.hook) {
      put_nested(header, NFTA_CHAIN_HOOK, [&] {
        put_u32(header, NFTA_HOOK_HOOKNUM, chain.hook->number);
        put_u32(header, NFTA_HOOK_PRIORITY, static_cast<uint32_t>(chain.hook->priority));
      });
      mnl_attr_put_strz(header, NFTA_CHAIN_TYPE, chain.hook->type.c_str());
      put_u32(header, NFTA_CHAIN_POLICY, chain.hook->accepts ? NF_ACCEPT : NF_DROP);
    }
    Notes().add_comment(kComment, chain.comment).put(header, NFTA_CHAIN_USERDATA);
  });
}

void Batch::delete_chain(const std::string& chain) {
  add(NFT_MSG_DELCHAIN, 0, NFTA_CHAIN_TABLE,
      [&](nlmsghdr* header) { mnl_attr_put_strz(header, NFTA_CHAIN_NAME, chain.c_str()); });
}

SetInfo info_of(const Set& set) {
  const TypeFacts key = facts(set.key);
  const TypeFacts value = facts(set.value);
  SetInfo info{
      .name = set.name, .key_type = key.type, .key_size = key.size, .size = set.size, .count = {}};
  if (set.holds != Set::Holds::Keys) {
    const bool verdicts = set.holds == Set::Holds::Verdicts;
    info.value_type = verdicts ? kVerdictType : value.type;
    info.value_size = verdicts ? kVerdictSize : value.size;
    info.flags |= NFT_SET_MAP;
  }
  if (set.interval) info.flags |= NFT_SET_INTERVAL;
  if (has_several_ranges(set)) info.flags |= NFT_SET_CONCAT;
  if (set.timeout.count() > 0 || set.dynamic) info.flags |= NFT_SET_TIMEOUT;
  if (set.dynamic) info.flags |= NFT_SET_EVAL;
  return info;
}

void Batch::add_set(const Set& set) {
  const SetInfo info = info_of(set);
  add(NFT_MSG_NEWSET, NLM_F_CREATE, NFTA_SET_TABLE, [&](nlmsghdr* header) {
    mnl_attr_put_strz(header, NFTA_SET_NAME, set.name.c_str());
    put_u32(header, NFTA_SET_FLAGS, info.flags);
    put_u32(header, NFTA_SET_KEY_TYPE, info.key_type);
    put_u32(header, NFTA_SET_KEY_LEN, info.key_size);
    if (set.holds != Set::Holds::Keys) {
      put_u32(header, NFTA_SET_DATA_TYPE, info.value_type);
      put_u32(header, NFTA_SET_DATA_LEN, info.value_size);
    }
    put_u32(header, NFTA_SET_ID, ++set_id_);
    if (set.timeout.count() > 0) put_milliseconds(header, NFTA_SET_TIMEOUT, set.timeout);
    put_description(header, set);
    Notes notes;
    notes.add(kKeyByteOrder, facts(set.key).order);
    if (set.holds != Set::Holds::Keys) notes.add(kDataByteOrder, facts(set.value).order);
    notes.add_comment(kSetComment, set.comment).put(header, NFTA_SET_USERDATA);
  });
}

void Batch::delete_set(const std::string& set) {
  add(NFT_MSG_DELSET, 0, NFTA_SET_TABLE,
      [&](nlmsghdr* header) { mnl_attr_put_strz(header, NFTA_SET_NAME, set.c_str()); });
}

void Batch::flush_set(const std::string& set) {
  add(NFT_MSG_DELSETELEM, 0, NFTA_SET_ELEM_LIST_TABLE,
      [&](nlmsghdr* header) { mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_SET, set.c_str()); });
}

void Batch::flush_chain(const std::string& chain) {
  add(NFT_MSG_DELRULE, 0, NFTA_RULE_TABLE,
      [&](nlmsghdr* header) { mnl_attr_put_strz(header, NFTA_RULE_CHAIN, chain.c_str()); });
}

void Batch::flush_all_chains() {
  add(NFT_MSG_DELRULE, 0, NFTA_RULE_TABLE, [](nlmsghdr*) {});
}

void Batch::add_rule(const std::string& chain, const Rule& rule) {
  add(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, NFTA_RULE_TABLE, [&](nlmsghdr* header) {
    mnl_attr_put_strz(header, NFTA_RULE_CHAIN, chain.c_str());
    put_nested(header, NFTA_RULE_EXPRESSIONS, [&] {
      for (const auto& expression : rule.expressions)
        std::visit([&](const auto& one) { put(header, one); }, expression);
    });
    Notes notes;
    notes.add_comment(kComment, rule.comment);
    if (!rule.tag.empty()) notes.add(kRuleTag, rule.tag);
    notes.put(header, NFTA_RULE_USERDATA);
  });
}

void Batch::add_element(std::string_view set, const Element& element) {
  put_element(NFT_MSG_NEWSETELEM, set, element);
}

void Batch::delete_element(std::string_view set, const Element& element) {
  put_element(NFT_MSG_DELSETELEM, set,
              {.key = element.key, .key_end = element.key_end, .ends_range = element.ends_range});
}

void Batch::open_elements(uint16_t type, std::string_view set) {
  add(type, type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0, NFTA_SET_ELEM_LIST_TABLE,
      [&](nlmsghdr* header) {
        mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_SET, std::string(set).c_str());
      });
  open_type_ = type;
  open_set_ = set;
  open_list_ = bytes_.size();
  Raw(bytes_).header(NFTA_SET_ELEM_LIST_ELEMENTS | NLA_F_NESTED, 0);
}

void Batch::close_elements() {
  if (open_type_ == 0) return;
  open_type_ = 0;
  Raw(bytes_).end(open_list_);
  const auto length = static_cast<uint32_t>(bytes_.size() - last_);
  std::memcpy(bytes_.data() + last_ + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
}

void Batch::put_element(uint16_t type, std::string_view set, const Element& element) {
  if (open_type_ != type || open_set_ != set || bytes_.size() - open_list_ > kMaxList) {
    close_elements();
    open_elements(type, set);
  }
  Raw raw(bytes_);
  const size_t begin = raw.begin(NFTA_LIST_ELEM);
  raw.value(NFTA_SET_ELEM_KEY, element.key);
  if (!element.key_end.empty()) raw.value(NFTA_SET_ELEM_KEY_END, element.key_end);
  if (element.ends_range) raw.number(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
  if (!element.value.empty()) raw.value(NFTA_SET_ELEM_DATA, element.value);
  if (element.verdict) raw.verdict(NFTA_SET_ELEM_DATA, *element.verdict, element.chain);
  if (element.timeout.count() > 0) raw.milliseconds(NFTA_SET_ELEM_TIMEOUT, element.timeout);
  if (element.left.count() > 0) raw.milliseconds(NFTA_SET_ELEM_EXPIRATION, element.left);
  if (!element.comment.empty()) raw.comment(NFTA_SET_ELEM_USERDATA, element.comment);
  raw.end(begin);
}

Result<> Batch::commit(const std::string& what) {
  auto conversation = TRY(Conversation::open(NETLINK_NETFILTER));
  return commit(conversation, what);
}

Result<> Batch::commit(Conversation& conversation, const std::string& what) {
  close_elements();
  // Acknowledged is the last message of substance: older kernels do not answer the one that ends a batch.
  nlmsghdr last;
  std::memcpy(&last, bytes_.data() + last_, sizeof last);
  last.nlmsg_flags |= NLM_F_ACK;
  std::memcpy(bytes_.data() + last_, &last, sizeof last);
  Message end;
  end.close(end.add_netfilter(NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  append(end);

  conversation.make_room(bytes_.size());
  const auto failure = TRY(conversation.send_batch(bytes_, messages_, what));
  if (!failure) return {};
  return std::unexpected(
      base::errno_error(what + ": " + describe(failure->sequence), failure->number));
}

std::string Batch::describe(uint32_t sequence) const {
  for (size_t at = 0; at + sizeof(nlmsghdr) <= bytes_.size();) {
    nlmsghdr header;
    std::memcpy(&header, bytes_.data() + at, sizeof header);
    if (header.nlmsg_seq == sequence && header.nlmsg_type >> 8 == NFNL_SUBSYS_NFTABLES)
      return describe_message(*reinterpret_cast<const nlmsghdr*>(bytes_.data() + at));
    at += MNL_ALIGN(header.nlmsg_len);
  }
  return "batch";
}

}  // namespace kernel::nf_tables
