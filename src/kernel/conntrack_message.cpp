#include "kernel/conntrack_message.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <array>

#include "kernel/attributes.h"
#include "kernel/netlink_values.h"

namespace kernel {
namespace {

using net::Family;
using net::IpAddr;
using net::Protocol;
using net::Tuple;
using netlink::Attributes;
using netlink::number;
using netlink::protocol_of;
using netlink::value;

// Bits of CTA_FILTER_ORIG_FLAGS, which the kernel's headers do not publish: compare the protocol of the tuple.
constexpr uint32_t kCompareProtocol = 1U << 3;

constexpr uint16_t conntrack(uint16_t message) { return NFNL_SUBSYS_CTNETLINK << 8 | message; }

std::optional<IpAddr> address_v4(const nlattr& attribute) {
  const auto bytes = value<uint32_t>(attribute);
  if (!bytes) return std::nullopt;
  return IpAddr::v4(ntohl(*bytes));
}

std::optional<IpAddr> address_v6(const nlattr& attribute) {
  const auto bytes = value<std::array<uint8_t, 16>>(attribute);
  if (!bytes) return std::nullopt;
  return IpAddr::v6(*bytes);
}

// One direction on its way out of a message. What was not there, or not well-formed, is empty.
struct Half {
  std::optional<IpAddr> source;
  std::optional<IpAddr> destination;
  std::optional<uint8_t> protocol;
  std::optional<uint16_t> source_port;  // in network order, as is the next
  std::optional<uint16_t> destination_port;
  bool own_zone = false;

  bool whole(Family family) const {
    return source && destination && protocol && source_port && destination_port && !own_zone &&
           source->family() == family && destination->family() == family;
  }
  Tuple tuple() const {
    return {*source, *destination, ntohs(*source_port), ntohs(*destination_port)};
  }
};

void decode_addresses(const nlattr& nest, Half& half) {
  for (const nlattr& attribute : Attributes::inside(nest)) {
    switch (mnl_attr_get_type(&attribute)) {
      case CTA_IP_V4_SRC:
        half.source = address_v4(attribute);
        break;
      case CTA_IP_V4_DST:
        half.destination = address_v4(attribute);
        break;
      case CTA_IP_V6_SRC:
        half.source = address_v6(attribute);
        break;
      case CTA_IP_V6_DST:
        half.destination = address_v6(attribute);
        break;
      default:
        break;
    }
  }
}

void decode_ports(const nlattr& nest, Half& half) {
  for (const nlattr& attribute : Attributes::inside(nest)) {
    switch (mnl_attr_get_type(&attribute)) {
      case CTA_PROTO_NUM:
        half.protocol = value<uint8_t>(attribute);
        break;
      case CTA_PROTO_SRC_PORT:
        half.source_port = value<uint16_t>(attribute);
        break;
      case CTA_PROTO_DST_PORT:
        half.destination_port = value<uint16_t>(attribute);
        break;
      default:
        break;
    }
  }
}

Half decode_half(const nlattr& nest) {
  Half half;
  for (const nlattr& attribute : Attributes::inside(nest)) {
    switch (mnl_attr_get_type(&attribute)) {
      case CTA_TUPLE_IP:
        decode_addresses(attribute, half);
        break;
      case CTA_TUPLE_PROTO:
        decode_ports(attribute, half);
        break;
      case CTA_TUPLE_ZONE:
        half.own_zone = true;
        break;
      default:
        break;
    }
  }
  return half;
}

std::optional<Family> family_of(const nlmsghdr& message) {
  if (mnl_nlmsg_get_payload_len(&message) < sizeof(nfgenmsg)) return std::nullopt;
  switch (static_cast<const nfgenmsg*>(mnl_nlmsg_get_payload(&message))->nfgen_family) {
    case AF_INET:
      return Family::V4;
    case AF_INET6:
      return Family::V6;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<TrackedFlow> decode_flow(const nlmsghdr& message) {
  const auto family = family_of(message);
  if (message.nlmsg_type != conntrack(IPCTNL_MSG_CT_NEW) || !family) return std::nullopt;
  Half original;
  Half reply;
  std::optional<uint32_t> id;
  for (const nlattr& attribute : Attributes::of(message, sizeof(nfgenmsg))) {
    switch (mnl_attr_get_type(&attribute)) {
      case CTA_TUPLE_ORIG:
        original = decode_half(attribute);
        break;
      case CTA_TUPLE_REPLY:
        reply = decode_half(attribute);
        break;
      case CTA_ID:
        id = value<uint32_t>(attribute);
        break;
      case CTA_ZONE:
        return std::nullopt;
      default:
        break;
    }
  }
  if (!id || !original.whole(*family) || !reply.whole(*family)) return std::nullopt;
  const auto protocol = protocol_of(*original.protocol);
  if (!protocol || reply.protocol != original.protocol) return std::nullopt;
  return TrackedFlow{{*protocol, original.tuple(), reply.tuple()}, *id};
}

void put_tuple(nlmsghdr* header, uint16_t type, const Tuple& tuple, Protocol protocol) {
  const bool v4 = tuple.source.family() == Family::V4;
  const auto bytes = static_cast<size_t>(tuple.source.bits() / 8);
  nlattr* whole = mnl_attr_nest_start(header, type);
  nlattr* part = mnl_attr_nest_start(header, CTA_TUPLE_IP);
  mnl_attr_put(header, v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, bytes, tuple.source.data());
  mnl_attr_put(header, v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, bytes, tuple.destination.data());
  mnl_attr_nest_end(header, part);
  part = mnl_attr_nest_start(header, CTA_TUPLE_PROTO);
  mnl_attr_put_u8(header, CTA_PROTO_NUM, number(protocol));
  mnl_attr_put_u16(header, CTA_PROTO_SRC_PORT, htons(tuple.source_port));
  mnl_attr_put_u16(header, CTA_PROTO_DST_PORT, htons(tuple.destination_port));
  mnl_attr_nest_end(header, part);
  mnl_attr_nest_end(header, whole);
}

netlink::Message dump_request(Family family, std::optional<Protocol> protocol) {
  netlink::Message message;
  nlmsghdr* header = message.add_netfilter(conntrack(IPCTNL_MSG_CT_GET), NLM_F_DUMP,
                                           family == Family::V4 ? AF_INET : AF_INET6);
  if (protocol) {
    nlattr* tuple = mnl_attr_nest_start(header, CTA_TUPLE_ORIG);
    nlattr* part = mnl_attr_nest_start(header, CTA_TUPLE_PROTO);
    mnl_attr_put_u8(header, CTA_PROTO_NUM, number(*protocol));
    mnl_attr_nest_end(header, part);
    mnl_attr_nest_end(header, tuple);
    nlattr* filter = mnl_attr_nest_start(header, CTA_FILTER);
    mnl_attr_put_u32(header, CTA_FILTER_ORIG_FLAGS, kCompareProtocol);
    mnl_attr_nest_end(header, filter);
  }
  message.close(header);
  return message;
}

netlink::Message delete_request(const TrackedFlow& tracked) {
  const auto& [flow, id] = tracked;
  netlink::Message message;
  const bool v4 = flow.original.source.family() == Family::V4;
  nlmsghdr* header =
      message.add_netfilter(conntrack(IPCTNL_MSG_CT_DELETE), NLM_F_ACK, v4 ? AF_INET : AF_INET6);
  put_tuple(header, CTA_TUPLE_ORIG, flow.original, flow.protocol);
  mnl_attr_put_u32(header, CTA_ID, id);
  message.close(header);
  return message;
}

}  // namespace kernel
