#include "kernel/ipset.h"

#include <arpa/inet.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <algorithm>

#include "kernel/attributes.h"

namespace kernel {
namespace {

using base::ErrorCode;
using base::Result;
using netlink::Attributes;
using netlink::Conversation;
using netlink::Message;

constexpr uint8_t kProtocol = 7;

constexpr uint16_t ipset(uint16_t command) { return NFNL_SUBSYS_IPSET << 8 | command; }

uint32_t references_in(const nlattr& header) {
  for (const nlattr& attribute : Attributes::inside(header)) {
    const bool references = mnl_attr_get_type(&attribute) == IPSET_ATTR_REFERENCES;
    if (references && mnl_attr_validate(&attribute, MNL_TYPE_U32) >= 0)
      return ntohl(mnl_attr_get_u32(&attribute));
  }
  return 0;
}

// One set, out of an answer to LIST.
Ipset::Set parse_set(const nlmsghdr& message) {
  Ipset::Set set;
  for (const nlattr& attribute : Attributes::of(message, sizeof(nfgenmsg))) {
    const uint16_t type = mnl_attr_get_type(&attribute);
    if (type == IPSET_ATTR_SETNAME && mnl_attr_validate(&attribute, MNL_TYPE_NUL_STRING) >= 0)
      set.name = mnl_attr_get_str(&attribute);
    if (type == IPSET_ATTR_DATA) set.references = references_in(attribute);
  }
  return set;
}

// The newest version of the protocol that the kernel understands, out of its answer to PROTOCOL.
uint8_t parse_protocol(const nlmsghdr& message) {
  for (const nlattr& attribute : Attributes::of(message, sizeof(nfgenmsg))) {
    const bool version = mnl_attr_get_type(&attribute) == IPSET_ATTR_PROTOCOL;
    if (version && mnl_attr_validate(&attribute, MNL_TYPE_U8) >= 0)
      return mnl_attr_get_u8(&attribute);
  }
  return kProtocol;
}

}  // namespace

Result<Ipset> Ipset::open() {
  Ipset opened(TRY(Conversation::open(NETLINK_NETFILTER)), kProtocol);
  Message message;
  nlmsghdr* header = opened.begin(message, IPSET_CMD_PROTOCOL, NLM_F_ACK);
  message.close(header);
  uint8_t newest = kProtocol;
  const auto answered = opened.conversation_.ask(
      message, "ipset", [&](const nlmsghdr& answer) { newest = parse_protocol(answer); });
  if (!answered && answered.error().code == ErrorCode::Permission)
    return std::unexpected(answered.error());
  // Whatever else the kernel answers: it does not know what we are talking about.
  if (!answered) return base::fail(ErrorCode::Unsupported, answered.error().text);
  opened.protocol_ = std::min(newest, kProtocol);
  return opened;
}

nlmsghdr* Ipset::begin(Message& message, uint8_t command, uint16_t flags) const {
  nlmsghdr* header = message.add_netfilter(ipset(command), flags, AF_INET);
  mnl_attr_put_u8(header, IPSET_ATTR_PROTOCOL, protocol_);
  return header;
}

Result<std::vector<Ipset::Set>> Ipset::list() {
  Message message;
  nlmsghdr* header = begin(message, IPSET_CMD_LIST, NLM_F_DUMP);
  mnl_attr_put_u32(header, IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER, htonl(IPSET_FLAG_LIST_HEADER));
  message.close(header);
  std::vector<Set> sets;
  TRY(conversation_.ask(message, "list ipsets", [&](const nlmsghdr& answer) {
    if (Set set = parse_set(answer); !set.name.empty()) sets.push_back(std::move(set));
  }));
  return sets;
}

uint32_t Ipset::references_of(const std::string& name) {
  const auto sets = list();
  if (!sets) return 0;
  const auto found = std::ranges::find(*sets, name, &Set::name);
  return found == sets->end() ? 0 : found->references;
}

Result<> Ipset::destroy(const std::string& name) {
  Message message;
  // EXCL: newer kernels are silent about a missing set without it.
  nlmsghdr* header = begin(message, IPSET_CMD_DESTROY, NLM_F_ACK | NLM_F_EXCL);
  mnl_attr_put_strz(header, IPSET_ATTR_SETNAME, name.c_str());
  message.close(header);
  const std::string what = "destroy ipset " + name;
  const auto done = conversation_.ask(message, what);
  if (done || done.error().code != ErrorCode::System) return done;
  // The set subsystem has error numbers of its own, for which there are no words: look whether it is in use.
  const uint32_t references = references_of(name);
  if (references == 0) return conversation_.ask(message, what);  // not any more
  return base::fail(ErrorCode::Busy, what + ": still used by " + std::to_string(references) +
                                         " rules; find them with `iptables-save | grep " + name +
                                         "`, and with ip6tables-save");
}

}  // namespace kernel
