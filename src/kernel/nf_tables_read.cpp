#include "kernel/nf_tables_read.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>

#include <cstring>
#include <numeric>

#include "kernel/attributes.h"

namespace kernel::nf_tables {
namespace {

using base::Result;
using netlink::Attributes;
using netlink::Message;

// Newer than the headers of some systems.
constexpr uint16_t kSetCount = NFTA_SET_EXPRESSIONS + 2;

constexpr int kAttempts = 10;

uint32_t number(const nlattr& attribute) {
  if (mnl_attr_get_payload_len(&attribute) != sizeof(uint32_t)) return 0;
  return ntohl(mnl_attr_get_u32(&attribute));
}

std::chrono::milliseconds milliseconds(const nlattr& attribute) {
  if (mnl_attr_get_payload_len(&attribute) != sizeof(uint64_t)) return {};
  return std::chrono::milliseconds(be64toh(mnl_attr_get_u64(&attribute)));
}

std::vector<uint8_t> bytes(const nlattr& attribute) {
  const auto* first = static_cast<const uint8_t*>(mnl_attr_get_payload(&attribute));
  return {first, first + mnl_attr_get_payload_len(&attribute)};
}

// Up to the zero, if there is one.
std::string text(const nlattr& attribute) {
  const auto* first = static_cast<const char*>(mnl_attr_get_payload(&attribute));
  return {first, strnlen(first, mnl_attr_get_payload_len(&attribute))};
}

std::vector<uint8_t> note(const std::vector<uint8_t>& notes, uint8_t type) {
  for (size_t at = 0; at + 2 <= notes.size();) {
    const size_t size = notes[at + 1];
    const auto begin = notes.begin() + static_cast<ptrdiff_t>(at) + 2;
    if (at + 2 + size > notes.size()) break;
    if (notes[at] == type) return {begin, begin + static_cast<ptrdiff_t>(size)};
    at += 2 + size;
  }
  return {};
}

void read_verdict(const nlattr& nest, ElementInfo& element) {
  for (const nlattr& attribute : Attributes::inside(nest)) {
    if (mnl_attr_get_type(&attribute) == NFTA_VERDICT_CODE)
      element.verdict = static_cast<int32_t>(number(attribute));
    if (mnl_attr_get_type(&attribute) == NFTA_VERDICT_CHAIN) element.chain = text(attribute);
  }
}

std::vector<uint8_t> value_in(const nlattr& nest) {
  for (const nlattr& attribute : Attributes::inside(nest)) {
    if (mnl_attr_get_type(&attribute) == NFTA_DATA_VALUE) return bytes(attribute);
  }
  return {};
}

void read_data(const nlattr& nest, ElementInfo& element) {
  element.value = value_in(nest);
  for (const nlattr& attribute : Attributes::inside(nest)) {
    if (mnl_attr_get_type(&attribute) == NFTA_DATA_VERDICT) read_verdict(attribute, element);
  }
}

ElementInfo read_element(const nlattr& nest) {
  ElementInfo element;
  for (const nlattr& attribute : Attributes::inside(nest)) {
    switch (mnl_attr_get_type(&attribute)) {
      case NFTA_SET_ELEM_KEY:
        element.key = value_in(attribute);
        break;
      case NFTA_SET_ELEM_KEY_END:
        element.key_end = value_in(attribute);
        break;
      case NFTA_SET_ELEM_FLAGS:
        element.ends_range = (number(attribute) & NFT_SET_ELEM_INTERVAL_END) != 0;
        break;
      case NFTA_SET_ELEM_DATA:
        read_data(attribute, element);
        break;
      case NFTA_SET_ELEM_TIMEOUT:
        element.timeout = milliseconds(attribute);
        break;
      case NFTA_SET_ELEM_EXPIRATION:
        element.left = milliseconds(attribute);
        break;
      case NFTA_SET_ELEM_USERDATA: {
        const auto comment = note(bytes(attribute), kComment);
        if (!comment.empty()) element.comment.assign(comment.begin(), comment.end() - 1);
        break;
      }
      default:
        break;
    }
  }
  return element;
}

Chain::Hook read_hook(const nlattr& nest) {
  Chain::Hook hook;
  for (const nlattr& attribute : Attributes::inside(nest)) {
    if (mnl_attr_get_type(&attribute) == NFTA_HOOK_HOOKNUM) hook.number = number(attribute);
    if (mnl_attr_get_type(&attribute) == NFTA_HOOK_PRIORITY)
      hook.priority = static_cast<int32_t>(number(attribute));
  }
  return hook;
}

void read_chain(const nlmsghdr& message, const std::string& table, std::vector<ChainInfo>& out) {
  ChainInfo chain;
  std::string type;
  bool accepts = true;
  for (const nlattr& attribute : Attributes::of(message, sizeof(nfgenmsg))) {
    switch (mnl_attr_get_type(&attribute)) {
      case NFTA_CHAIN_TABLE:
        if (text(attribute) != table) return;
        break;
      case NFTA_CHAIN_NAME:
        chain.name = text(attribute);
        break;
      case NFTA_CHAIN_HOOK:
        chain.hook = read_hook(attribute);
        break;
      case NFTA_CHAIN_TYPE:
        type = text(attribute);
        break;
      case NFTA_CHAIN_POLICY:
        accepts = number(attribute) == NF_ACCEPT;
        break;
      default:
        break;
    }
  }
  if (chain.hook) {
    chain.hook->type = type;
    chain.hook->accepts = accepts;
  }
  out.push_back(std::move(chain));
}

void read_rule(const nlmsghdr& message, const std::string& table, std::vector<RuleInfo>& out) {
  RuleInfo rule;
  for (const nlattr& attribute : Attributes::of(message, sizeof(nfgenmsg))) {
    switch (mnl_attr_get_type(&attribute)) {
      case NFTA_RULE_TABLE:
        if (text(attribute) != table) return;
        break;
      case NFTA_RULE_CHAIN:
        rule.chain = text(attribute);
        break;
      case NFTA_RULE_USERDATA:
        rule.tag = note(bytes(attribute), kRuleTag);
        break;
      default:
        break;
    }
  }
  out.push_back(std::move(rule));
}

uint32_t described_size(const nlattr& nest) {
  for (const nlattr& attribute : Attributes::inside(nest)) {
    if (mnl_attr_get_type(&attribute) == NFTA_SET_DESC_SIZE) return number(attribute);
  }
  return 0;
}

void read_set(const nlmsghdr& message, const std::string& table, std::vector<SetInfo>& out) {
  SetInfo set;
  for (const nlattr& attribute : Attributes::of(message, sizeof(nfgenmsg))) {
    switch (mnl_attr_get_type(&attribute)) {
      case NFTA_SET_TABLE:
        if (text(attribute) != table) return;
        break;
      case NFTA_SET_NAME:
        set.name = text(attribute);
        break;
      case NFTA_SET_FLAGS:
        set.flags = number(attribute);
        break;
      case NFTA_SET_KEY_TYPE:
        set.key_type = number(attribute);
        break;
      case NFTA_SET_KEY_LEN:
        set.key_size = number(attribute);
        break;
      case NFTA_SET_DATA_TYPE:
        set.value_type = number(attribute);
        break;
      case NFTA_SET_DATA_LEN:
        set.value_size = number(attribute);
        break;
      case NFTA_SET_DESC:
        set.size = described_size(attribute);
        break;
      case kSetCount:
        set.count = number(attribute);
        break;
      default:
        break;
    }
  }
  out.push_back(std::move(set));
}

size_t count_elements_of(const nlmsghdr& message) {
  size_t count = 0;
  for (const nlattr& list : Attributes::of(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(&list) != NFTA_SET_ELEM_LIST_ELEMENTS) continue;
    const auto elements = Attributes::inside(list);
    for (auto element = elements.begin(); !element.at_end(); ++element)
      ++count;
  }
  return count;
}

}  // namespace

std::vector<ElementInfo> parse_elements(const nlmsghdr& message) {
  std::vector<ElementInfo> elements;
  for (const nlattr& list : Attributes::of(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(&list) != NFTA_SET_ELEM_LIST_ELEMENTS) continue;
    for (const nlattr& element : Attributes::inside(list))
      elements.push_back(read_element(element));
  }
  return elements;
}

Result<uint32_t> generation(netlink::Conversation& conversation) {
  Message message;
  message.close(
      message.add_netfilter(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN, NLM_F_ACK, AF_UNSPEC));
  uint32_t id = 0;
  TRY(conversation.ask(message, "generation of nf_tables", [&](const nlmsghdr& answer) {
    for (const nlattr& attribute : Attributes::of(answer, sizeof(nfgenmsg))) {
      if (mnl_attr_get_type(&attribute) == NFTA_GEN_ID) id = number(attribute);
    }
  }));
  return id;
}

Message Reader::request(uint16_t type, uint16_t flags, uint16_t table_attribute) const {
  Message message;
  nlmsghdr* header = message.add_netfilter(static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type),
                                           flags, protocol_family(family_));
  mnl_attr_put_strz(header, table_attribute, table_.c_str());
  message.close(header);
  return message;
}

template <typename T>
Result<std::vector<T>> Reader::dump(
    const Message& message, const std::string& what,
    const std::function<void(const nlmsghdr&, std::vector<T>&)>& parse) {
  for (int attempt = 1;; ++attempt) {
    std::vector<T> found;
    const auto done =
        conversation_.ask(message, what, [&](const nlmsghdr& one) { parse(one, found); });
    if (done) return found;
    if (done.error().code != base::ErrorCode::Busy || attempt == kAttempts)
      return std::unexpected(done.error());
  }
}

Result<bool> Reader::has_table() {
  const auto found = conversation_.ask(request(NFT_MSG_GETTABLE, NLM_F_ACK, NFTA_TABLE_NAME),
                                       "look for the table");
  if (found) return true;
  if (found.error().code == base::ErrorCode::NotFound) return false;
  return std::unexpected(found.error());
}

Result<uint32_t> Reader::table_flags() {
  uint32_t flags = 0;
  TRY(conversation_.ask(request(NFT_MSG_GETTABLE, NLM_F_ACK, NFTA_TABLE_NAME), "read the table",
                        [&](const nlmsghdr& answer) {
                          for (const nlattr& attribute : Attributes::of(answer, sizeof(nfgenmsg))) {
                            if (mnl_attr_get_type(&attribute) == NFTA_TABLE_FLAGS)
                              flags = number(attribute);
                          }
                        }));
  return flags;
}

Result<std::vector<ChainInfo>> Reader::chains() {
  return dump<ChainInfo>(request(NFT_MSG_GETCHAIN, NLM_F_DUMP, NFTA_CHAIN_TABLE), "list chains",
                         [this](const nlmsghdr& one, auto& out) { read_chain(one, table_, out); });
}

Result<std::vector<RuleInfo>> Reader::rules() {
  return dump<RuleInfo>(request(NFT_MSG_GETRULE, NLM_F_DUMP, NFTA_RULE_TABLE), "list rules",
                        [this](const nlmsghdr& one, auto& out) { read_rule(one, table_, out); });
}

Result<std::vector<SetInfo>> Reader::sets() {
  return dump<SetInfo>(request(NFT_MSG_GETSET, NLM_F_DUMP, NFTA_SET_TABLE), "list sets",
                       [this](const nlmsghdr& one, auto& out) { read_set(one, table_, out); });
}

Message Reader::elements_request(const std::string& set) const {
  Message message;
  nlmsghdr* header = message.add_netfilter(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETSETELEM,
                                           NLM_F_DUMP, protocol_family(family_));
  mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_TABLE, table_.c_str());
  mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_SET, set.c_str());
  message.close(header);
  return message;
}

Result<std::vector<ElementInfo>> Reader::elements(const std::string& set) {
  return dump<ElementInfo>(elements_request(set), "list elements of " + set,
                           [](const nlmsghdr& one, auto& out) {
                             for (auto& element : parse_elements(one))
                               out.push_back(std::move(element));
                           });
}

Result<size_t> Reader::count_elements(const std::string& set) {
  const auto counts = TRY(
      dump<size_t>(elements_request(set), "count elements of " + set,
                   [](const nlmsghdr& one, auto& out) { out.push_back(count_elements_of(one)); }));
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

}  // namespace kernel::nf_tables
