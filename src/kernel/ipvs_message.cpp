#include "kernel/ipvs_message.h"

#include <arpa/inet.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>

#include "kernel/attributes.h"
#include "kernel/netlink_values.h"

namespace kernel {
namespace {

using net::Family;
using netlink::Attributes;
using netlink::value;

// The kernel keeps clients apart by their whole address.
constexpr uint32_t kWholeV4 = 0xffffffff;
constexpr uint32_t kWholeV6 = 128;

void put_key(nlmsghdr* header, const ServerKey& key) {
  mnl_attr_put_u16(header, IPVS_SVC_ATTR_AF, netlink::address_family(key.ip.family()));
  mnl_attr_put_u16(header, IPVS_SVC_ATTR_PROTOCOL, netlink::number(key.protocol));
  netlink::put_address(header, IPVS_SVC_ATTR_ADDR, key.ip);
  mnl_attr_put_u16(header, IPVS_SVC_ATTR_PORT, htons(key.port));
}

// The first attribute of this kind, if there is one.
const nlattr* find(const Attributes& attributes, uint16_t type) {
  for (const nlattr& attribute : attributes) {
    if (mnl_attr_get_type(&attribute) == type) return &attribute;
  }
  return nullptr;
}

template <typename T>
std::optional<T> value_of(const Attributes& attributes, uint16_t type) {
  const nlattr* found = find(attributes, type);
  return found == nullptr ? std::nullopt : value<T>(*found);
}

std::optional<ServerKey> decode_key(const Attributes& attributes) {
  const auto family =
      netlink::family_of(value_of<uint16_t>(attributes, IPVS_SVC_ATTR_AF).value_or(0));
  const auto protocol =
      netlink::protocol_of(value_of<uint16_t>(attributes, IPVS_SVC_ATTR_PROTOCOL).value_or(0));
  const nlattr* address = find(attributes, IPVS_SVC_ATTR_ADDR);
  const auto port = value_of<uint16_t>(attributes, IPVS_SVC_ATTR_PORT);
  if (!family || !protocol || address == nullptr || !port) return std::nullopt;
  const auto ip = netlink::address_value(*address, *family);
  if (!ip) return std::nullopt;
  return ServerKey{.ip = *ip, .port = ntohs(*port), .protocol = *protocol};
}

}  // namespace

nlmsghdr* put_generic(nlmsghdr* header, uint8_t command, uint8_t version) {
  auto* generic = static_cast<genlmsghdr*>(mnl_nlmsg_put_extra_header(header, sizeof(genlmsghdr)));
  generic->cmd = command;
  generic->version = version;
  return header;
}

void put_server(nlmsghdr* header, const VirtualServer& server) {
  nlattr* nest = mnl_attr_nest_start(header, IPVS_CMD_ATTR_SERVICE);
  put_key(header, server.key);
  mnl_attr_put_strz(header, IPVS_SVC_ATTR_SCHED_NAME, server.scheduler.c_str());
  const ip_vs_flags flags{.flags = server.flags, .mask = ~0U};
  mnl_attr_put(header, IPVS_SVC_ATTR_FLAGS, sizeof flags, &flags);
  mnl_attr_put_u32(header, IPVS_SVC_ATTR_TIMEOUT, server.timeout_s);
  const bool v4 = server.key.ip.family() == Family::V4;
  mnl_attr_put_u32(header, IPVS_SVC_ATTR_NETMASK, v4 ? kWholeV4 : kWholeV6);
  mnl_attr_nest_end(header, nest);
}

void put_server(nlmsghdr* header, const ServerKey& server) {
  nlattr* nest = mnl_attr_nest_start(header, IPVS_CMD_ATTR_SERVICE);
  put_key(header, server);
  mnl_attr_nest_end(header, nest);
}

void put_real_server(nlmsghdr* header, const RealServer& real) {
  nlattr* nest = mnl_attr_nest_start(header, IPVS_CMD_ATTR_DEST);
  netlink::put_address(header, IPVS_DEST_ATTR_ADDR, real.ip);
  mnl_attr_put_u16(header, IPVS_DEST_ATTR_PORT, htons(real.port));
  mnl_attr_put_u32(header, IPVS_DEST_ATTR_FWD_METHOD, IP_VS_CONN_F_MASQ);
  mnl_attr_put_u32(header, IPVS_DEST_ATTR_WEIGHT, real.weight);
  mnl_attr_put_u32(header, IPVS_DEST_ATTR_U_THRESH, 0);
  mnl_attr_put_u32(header, IPVS_DEST_ATTR_L_THRESH, 0);
  mnl_attr_nest_end(header, nest);
}

std::optional<VirtualServer> decode_server(const nlmsghdr& message) {
  const nlattr* nest = find(Attributes::of(message, sizeof(genlmsghdr)), IPVS_CMD_ATTR_SERVICE);
  if (nest == nullptr) return std::nullopt;
  const auto attributes = Attributes::inside(*nest);
  const auto key = decode_key(attributes);
  const nlattr* scheduler = find(attributes, IPVS_SVC_ATTR_SCHED_NAME);
  const auto flags = value_of<ip_vs_flags>(attributes, IPVS_SVC_ATTR_FLAGS);
  const auto timeout = value_of<uint32_t>(attributes, IPVS_SVC_ATTR_TIMEOUT);
  if (!key || scheduler == nullptr || !flags || !timeout) return std::nullopt;
  const auto name = netlink::text_value(*scheduler);
  if (!name) return std::nullopt;
  return VirtualServer{.key = *key,
                       .scheduler = std::string(*name),
                       .flags = flags->flags & ~static_cast<uint32_t>(IP_VS_SVC_F_HASHED),
                       .timeout_s = *timeout};
}

std::optional<RealServerState> decode_real_server(const nlmsghdr& message, Family family) {
  const nlattr* nest = find(Attributes::of(message, sizeof(genlmsghdr)), IPVS_CMD_ATTR_DEST);
  if (nest == nullptr) return std::nullopt;
  const auto attributes = Attributes::inside(*nest);
  const auto told = value_of<uint16_t>(attributes, IPVS_DEST_ATTR_ADDR_FAMILY);
  const auto own = netlink::family_of(told.value_or(netlink::address_family(family)));
  const nlattr* address = find(attributes, IPVS_DEST_ATTR_ADDR);
  const auto port = value_of<uint16_t>(attributes, IPVS_DEST_ATTR_PORT);
  const auto weight = value_of<uint32_t>(attributes, IPVS_DEST_ATTR_WEIGHT);
  if (!own || address == nullptr || !port || !weight) return std::nullopt;
  const auto ip = netlink::address_value(*address, *own);
  if (!ip) return std::nullopt;
  return RealServerState{
      .server = {.ip = *ip, .port = ntohs(*port), .weight = *weight},
      .active = value_of<uint32_t>(attributes, IPVS_DEST_ATTR_ACTIVE_CONNS).value_or(0),
      .inactive = value_of<uint32_t>(attributes, IPVS_DEST_ATTR_INACT_CONNS).value_or(0)};
}

}  // namespace kernel
