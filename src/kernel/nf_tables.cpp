#include "kernel/nf_tables.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace kernel::nf_tables {
namespace {

using base::Result;
using netlink::Conversation;
using netlink::Message;

// An element is its key and three headers of attributes; a message must not outgrow its buffer.
constexpr size_t kElementHeaders = 3 * sizeof(nlattr);
constexpr size_t kElementBytes = sizeof(Message::bytes) / 2;

struct FieldFacts {
  uint32_t size;
  uint32_t type;  // the number that the program nft has for it, to print keys as what they are
};

FieldFacts facts(FieldType field) {
  switch (field) {
    case FieldType::Ipv4:
      return {4, 7};
    case FieldType::Ipv6:
      return {16, 8};
    case FieldType::Port:
      return {4, 13};
  }
  __builtin_unreachable();
}

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
    put_value(header, NFTA_BITWISE_XOR, std::vector<uint8_t>(mask.bits.size()));
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

}  // namespace

Batch::Batch(net::Family family, std::string table)
    : family_(family == net::Family::V4 ? NFPROTO_IPV4 : NFPROTO_IPV6), table_(std::move(table)) {
  Message begin;
  begin.close(begin.add_netfilter(NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  append(begin);
}

void Batch::append(const Message& message) {
  last_ = bytes_.size();
  bytes_.insert(bytes_.end(), message.bytes.data(), message.bytes.data() + message.used);
}

template <typename Fill>
void Batch::add(uint16_t type, uint16_t flags, uint16_t table_attribute, Fill&& fill) {
  Message message;
  nlmsghdr* header = message.add_netfilter(static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type),
                                           flags, family_);
  mnl_attr_put_strz(header, table_attribute, table_.c_str());
  fill(header);
  message.close(header);
  append(message);
}

void Batch::add_table() {
  add(NFT_MSG_NEWTABLE, NLM_F_CREATE, NFTA_TABLE_NAME, [](nlmsghdr*) {});
}

void Batch::delete_table() {
  add(NFT_MSG_DELTABLE, 0, NFTA_TABLE_NAME, [](nlmsghdr*) {});
}

void Batch::add_chain(const Chain& chain) {
  add(NFT_MSG_NEWCHAIN, NLM_F_CREATE, NFTA_CHAIN_TABLE, [&](nlmsghdr* header) {
    mnl_attr_put_strz(header, NFTA_CHAIN_NAME, chain.name.c_str());
    put_nested(header, NFTA_CHAIN_HOOK, [&] {
      put_u32(header, NFTA_HOOK_HOOKNUM, chain.hook);
      put_u32(header, NFTA_HOOK_PRIORITY, static_cast<uint32_t>(chain.priority));
    });
    mnl_attr_put_strz(header, NFTA_CHAIN_TYPE, "filter");
  });
}

void Batch::add_set(const Set& set) {
  uint32_t size = 0;
  uint32_t type = 0;
  for (const FieldType field : set.key) {
    size += facts(field).size;
    type = type << 6 | facts(field).type;
  }
  add(NFT_MSG_NEWSET, NLM_F_CREATE, NFTA_SET_TABLE, [&](nlmsghdr* header) {
    mnl_attr_put_strz(header, NFTA_SET_NAME, set.name.c_str());
    put_u32(header, NFTA_SET_FLAGS, NFT_SET_TIMEOUT);
    put_u32(header, NFTA_SET_KEY_TYPE, type);
    put_u32(header, NFTA_SET_KEY_LEN, size);
    put_u32(header, NFTA_SET_ID, ++set_id_);
    mnl_attr_put_u64(header, NFTA_SET_TIMEOUT, htobe64(static_cast<uint64_t>(set.timeout.count())));
  });
}

void Batch::flush_chain(const std::string& chain) {
  add(NFT_MSG_DELRULE, 0, NFTA_RULE_TABLE,
      [&](nlmsghdr* header) { mnl_attr_put_strz(header, NFTA_RULE_CHAIN, chain.c_str()); });
}

void Batch::add_rule(const std::string& chain, const Rule& rule) {
  add(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, NFTA_RULE_TABLE, [&](nlmsghdr* header) {
    mnl_attr_put_strz(header, NFTA_RULE_CHAIN, chain.c_str());
    put_nested(header, NFTA_RULE_EXPRESSIONS, [&] {
      for (const auto& expression : rule)
        std::visit([&](const auto& one) { put(header, one); }, expression);
    });
  });
}

void Batch::add_elements(const std::string& set, std::span<const uint8_t> keys, size_t key_size) {
  const size_t piece = kElementBytes / (key_size + kElementHeaders) * key_size;
  for (; !keys.empty(); keys = keys.subspan(std::min(piece, keys.size()))) {
    const auto some = keys.first(std::min(piece, keys.size()));
    add(NFT_MSG_NEWSETELEM, NLM_F_CREATE, NFTA_SET_ELEM_LIST_TABLE, [&](nlmsghdr* header) {
      mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_SET, set.c_str());
      put_nested(header, NFTA_SET_ELEM_LIST_ELEMENTS, [&] {
        for (size_t at = 0; at < some.size(); at += key_size) {
          put_nested(header, NFTA_LIST_ELEM,
                     [&] { put_value(header, NFTA_SET_ELEM_KEY, some.subspan(at, key_size)); });
        }
      });
    });
  }
}

Result<> Batch::commit(const std::string& what) {
  // Acknowledged is the last message of substance: older kernels do not answer the one that ends a batch.
  nlmsghdr last;
  std::memcpy(&last, bytes_.data() + last_, sizeof last);
  last.nlmsg_flags |= NLM_F_ACK;
  std::memcpy(bytes_.data() + last_, &last, sizeof last);
  Message end;
  end.close(end.add_netfilter(NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  append(end);

  auto conversation = TRY(Conversation::open(NETLINK_NETFILTER));
  const int room = static_cast<int>(2 * bytes_.size());
  ::setsockopt(mnl_socket_get_fd(conversation.socket()), SOL_SOCKET, SO_SNDBUFFORCE, &room,
               sizeof room);
  return conversation.ask(bytes_, what);
}

}  // namespace kernel::nf_tables
