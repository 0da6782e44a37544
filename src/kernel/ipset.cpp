#include "kernel/ipset.h"

#include <arpa/inet.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/ipset/ip_set_hash.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "kernel/attributes.h"
#include "kernel/ipset_message.h"
#include "kernel/netlink_values.h"

namespace kernel {
namespace {

using base::ErrorCode;
using base::Result;
using net::Family;
using netlink::Attributes;
using netlink::Conversation;
using netlink::Message;
using netlink::Requests;

constexpr uint8_t kProtocol = 7;

// What ipset(8) asks for if nothing is said.
constexpr uint32_t kHashSize = 1024;
constexpr uint32_t kMaxMembers = 65536;

struct TypeName {
  std::string_view name;
  std::string_view module;
};
// In the order of SetType.
constexpr std::array<TypeName, 5> kTypes{{{"hash:ip", "ip_set_hash_ip"},
                                          {"hash:ip,port", "ip_set_hash_ipport"},
                                          {"hash:ip,port,ip", "ip_set_hash_ipportip"},
                                          {"hash:ip,port,net", "ip_set_hash_ipportnet"},
                                          {"bitmap:port", "ip_set_bitmap_port"}}};
const TypeName& names_of(SetType type) { return kTypes[static_cast<size_t>(type)]; }

constexpr uint16_t ipset(uint16_t command) { return NFNL_SUBSYS_IPSET << 8 | command; }

// A message of the set subsystem up to the attributes of its own. Of a Message or of Requests.
template <typename Messages>
nlmsghdr* begin(Messages& messages, uint8_t protocol, uint8_t command, uint16_t flags) {
  nlmsghdr* header = messages.add_netfilter(ipset(command), flags, AF_INET);
  mnl_attr_put_u8(header, IPSET_ATTR_PROTOCOL, protocol);
  return header;
}

// begin() has put it in front of the others.
void set_protocol(nlmsghdr* message, uint8_t protocol) {
  auto* first = static_cast<nlattr*>(mnl_nlmsg_get_payload_offset(message, sizeof(nfgenmsg)));
  *static_cast<uint8_t*>(mnl_attr_get_payload(first)) = protocol;
}

void put_type(nlmsghdr* header, SetType type) {
  mnl_attr_put_strz(header, IPSET_ATTR_TYPENAME, std::string(names_of(type).name).c_str());
}

void put_network_order(nlmsghdr* header, uint16_t type, uint32_t number) {
  mnl_attr_put_u32(header, type | NLA_F_NET_BYTEORDER, htonl(number));
}

// The number of one byte that an answer has under this attribute.
uint8_t byte_in(const nlmsghdr& message, uint16_t type, uint8_t otherwise) {
  for (const nlattr& attribute : Attributes::of(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(&attribute) == type)
      return netlink::value<uint8_t>(attribute).value_or(otherwise);
  }
  return otherwise;
}

void put_size(nlmsghdr* header, SetType type) {
  nlattr* data = mnl_attr_nest_start(header, IPSET_ATTR_DATA);
  if (type == SetType::BitmapPort) {
    mnl_attr_put_u16(header, IPSET_ATTR_PORT_FROM | NLA_F_NET_BYTEORDER, htons(0));
    mnl_attr_put_u16(header, IPSET_ATTR_PORT_TO | NLA_F_NET_BYTEORDER, htons(65535));
  } else {
    put_network_order(header, IPSET_ATTR_HASHSIZE, kHashSize);
    put_network_order(header, IPSET_ATTR_MAXELEM, kMaxMembers);
  }
  mnl_attr_nest_end(header, data);
}

// With EXCL, the kernel would complain about a member that is there already, or gone already.
void append(Requests& requests, uint8_t command, const std::string& set, SetType type,
            const SetEntry& entry) {
  nlmsghdr* header = begin(requests, kProtocol, command, 0);
  mnl_attr_put_strz(header, IPSET_ATTR_SETNAME, set.c_str());
  put_entry(header, type, entry);
  requests.close(header);
}

// "hash:ip of IPv4"; a set of ports is of no family.
std::string kind_text(std::string_view type, std::optional<Family> family) {
  std::string text(type);
  if (family) text += " of " + std::string(net::name(*family));
  return text;
}

std::unexpected<base::Error> another_kind(const std::string& name, const std::string& actual,
                                          const std::string& wanted) {
  return base::fail(ErrorCode::Exists,
                    "ipset " + name + " is of another kind: " + actual + ", where " + wanted +
                        " is needed; destroy it with `ipset destroy " + name + "`");
}

}  // namespace

std::string_view name(SetType type) { return names_of(type).name; }

Result<Ipset> Ipset::open() {
  Ipset opened(TRY(Conversation::open(NETLINK_NETFILTER)), kProtocol);
  Message message;
  message.close(begin(message, kProtocol, IPSET_CMD_PROTOCOL, NLM_F_ACK));
  uint8_t newest = kProtocol;
  const auto answered = opened.conversation_.ask(message, "ipset", [&](const nlmsghdr& answer) {
    newest = byte_in(answer, IPSET_ATTR_PROTOCOL, kProtocol);
  });
  if (!answered && answered.error().code == ErrorCode::Permission)
    return std::unexpected(answered.error());
  // Whatever else the kernel answers: it does not know what we are talking about.
  if (!answered) return base::fail(ErrorCode::Unsupported, answered.error().text);
  opened.protocol_ = std::min(newest, kProtocol);
  return opened;
}

Result<std::vector<Ipset::Set>> Ipset::list() {
  Message message;
  nlmsghdr* header = begin(message, protocol_, IPSET_CMD_LIST, NLM_F_DUMP);
  put_network_order(header, IPSET_ATTR_FLAGS, IPSET_FLAG_LIST_HEADER);
  message.close(header);
  std::vector<Set> sets;
  TRY(conversation_.ask(message, "list ipsets", [&](const nlmsghdr& answer) {
    SetListing set = decode_set(answer);
    if (!set.name.empty()) sets.push_back({std::move(set.name), set.references});
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
  nlmsghdr* header = begin(message, protocol_, IPSET_CMD_DESTROY, NLM_F_ACK | NLM_F_EXCL);
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

Result<uint8_t> Ipset::newest_revision(SetType type, Family family) {
  Message message;
  nlmsghdr* header = begin(message, protocol_, IPSET_CMD_TYPE, NLM_F_ACK);
  put_type(header, type);
  mnl_attr_put_u8(header, IPSET_ATTR_FAMILY, netlink::address_family(family));
  message.close(header);
  uint8_t revision = 0;
  const auto answered = conversation_.ask(
      message, "ipset type " + std::string(kernel::name(type)),
      [&](const nlmsghdr& answer) { revision = byte_in(answer, IPSET_ATTR_REVISION, 0); });
  if (answered) return revision;
  if (answered.error().code == ErrorCode::Permission) return std::unexpected(answered.error());
  return base::fail(ErrorCode::Unsupported, "this kernel has no ipsets of type " +
                                                std::string(kernel::name(type)) + " (module " +
                                                std::string(names_of(type).module) + ")");
}

Result<> Ipset::check(SetType type, Family family) {
  TRY(newest_revision(type, family));
  return {};
}

Result<> Ipset::create(const std::string& name, SetType type, Family family) {
  // The kernel takes a set of the other family for the same, and one of another size for a different one.
  const auto there = look_at(name);
  if (!there && there.error().code != ErrorCode::NotFound) return std::unexpected(there.error());
  if (there && (there->type != kernel::name(type) || there->family.value_or(family) != family)) {
    const auto wanted = type == SetType::BitmapPort ? std::nullopt : std::optional(family);
    return another_kind(name, kind_text(there->type, there->family),
                        kind_text(kernel::name(type), wanted));
  }
  if (there) return {};

  Requests request;
  nlmsghdr* header = begin(request, protocol_, IPSET_CMD_CREATE, NLM_F_CREATE);
  mnl_attr_put_strz(header, IPSET_ATTR_SETNAME, name.c_str());
  put_type(header, type);
  mnl_attr_put_u8(header, IPSET_ATTR_REVISION, TRY(newest_revision(type, family)));
  // A bitmap of ports is of no family.
  const bool ports = type == SetType::BitmapPort;
  mnl_attr_put_u8(header, IPSET_ATTR_FAMILY, ports ? AF_UNSPEC : netlink::address_family(family));
  put_size(header, type);
  request.close(header);
  const std::string what = "create ipset " + name;
  const int refused = TRY(netlink::try_one(conversation_, std::move(request), what));
  if (refused == 0) return {};
  return std::unexpected(
      base::Error{base::errno_error(what, refused).code, what + ": " + explain(refused)});
}

// One dump: `flags` of the set subsystem.
Result<> Ipset::dump(const std::string& name, uint32_t flags,
                     const std::function<void(const nlmsghdr&)>& each) {
  Message message;
  // Older kernels answer that there is no such set only to those who want an acknowledgement.
  nlmsghdr* header = begin(message, protocol_, IPSET_CMD_LIST, NLM_F_DUMP | NLM_F_ACK);
  mnl_attr_put_strz(header, IPSET_ATTR_SETNAME, name.c_str());
  if (flags != 0) put_network_order(header, IPSET_ATTR_FLAGS, flags);
  message.close(header);
  return conversation_.ask(message, "list ipset " + name, each);
}

Result<SetListing> Ipset::look_at(const std::string& name) {
  SetListing set;
  TRY(dump(name, IPSET_FLAG_LIST_HEADER,
           [&](const nlmsghdr& answer) { set = decode_set(answer); }));
  return set;
}

Result<std::vector<SetEntry>> Ipset::members(const std::string& name, SetType type) {
  std::vector<SetEntry> found;
  std::string actual;
  TRY(dump(name, 0, [&](const nlmsghdr& answer) {
    if (auto kind = decode_set(answer).type; !kind.empty()) actual = std::move(kind);
    if (actual != kernel::name(type)) return;
    const auto more = decode_members(answer, type);
    found.insert(found.end(), more.begin(), more.end());
  }));
  if (actual != kernel::name(type))
    return another_kind(name, actual, std::string(kernel::name(type)));
  return found;
}

void Ipset::Changes::add(const std::string& set, SetType type, const SetEntry& entry) {
  append(requests_, IPSET_CMD_ADD, set, type, entry);
}

void Ipset::Changes::remove(const std::string& set, SetType type, const SetEntry& entry) {
  append(requests_, IPSET_CMD_DEL, set, type, entry);
}

Result<std::vector<netlink::RequestFailure>> Ipset::apply(Changes changes) {
  Requests& requests = changes.requests_;
  for (size_t place = 0; protocol_ != kProtocol && place < requests.size(); ++place)
    set_protocol(requests.at(place), protocol_);
  return conversation_.send_all(std::move(requests), "change ipsets");
}

std::string Ipset::explain(int number) {
  switch (number) {
    case ENOENT:
      return "there is no such set";
    case IPSET_ERR_PROTOCOL:
      return "the set does not take such entries";
    case IPSET_ERR_FIND_TYPE:
      return "the kernel has no sets of this type";
    case IPSET_ERR_MAX_SETS:
      return "there are as many sets as there can be";
    case IPSET_ERR_BUSY:
    case IPSET_ERR_REFERENCED:
      return "the set is in use";
    case IPSET_ERR_EXIST_SETNAME2:
    case EEXIST:
      return "there is another set of this name";
    case IPSET_ERR_TYPE_MISMATCH:
      return "the set is of another type";
    case IPSET_ERR_EXIST:
      return "the member is there already, or gone already";
    case IPSET_ERR_INVALID_CIDR:
      return "the set does not take this length of prefix";
    case IPSET_ERR_INVALID_FAMILY:
    case IPSET_ERR_IPADDR_IPV4:
    case IPSET_ERR_IPADDR_IPV6:
      return "the set is of the other IP family";
    case IPSET_ERR_HASH_FULL:
      return "the set is full";
    case IPSET_ERR_HASH_ELEM:
      return "the set does not take this member";
    case IPSET_ERR_INVALID_PROTO:
    case IPSET_ERR_MISSING_PROTO:
      return "the set does not take this protocol";
    default:
      break;
  }
  if (number > IPSET_ERR_PRIVATE) return "error " + std::to_string(number) + " of ipset";
  return base::errno_error("", number).text.substr(2);
}

}  // namespace kernel
