#include "kernel/ipset_message.h"

#include <arpa/inet.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>

#include "kernel/attributes.h"
#include "kernel/netlink_values.h"

namespace kernel {
namespace {

using net::Family;
using net::IpAddr;
using netlink::Attributes;
using netlink::value;

bool has_port(SetType type) { return type != SetType::HashIp; }
bool has_address(SetType type) { return type != SetType::BitmapPort; }
bool has_protocol(SetType type) { return has_address(type) && has_port(type); }
bool has_other(SetType type) {
  return type == SetType::HashIpPortIp || type == SetType::HashIpPortNet;
}

void put_ip(nlmsghdr* header, uint16_t type, const IpAddr& ip) {
  const bool v4 = ip.family() == Family::V4;
  nlattr* nest = mnl_attr_nest_start(header, type);
  netlink::put_address(
      header, NLA_F_NET_BYTEORDER | (v4 ? IPSET_ATTR_IPADDR_IPV4 : IPSET_ATTR_IPADDR_IPV6), ip);
  mnl_attr_nest_end(header, nest);
}

std::optional<IpAddr> decode_ip(const nlattr& nest) {
  for (const nlattr& attribute : Attributes::inside(nest)) {
    const uint16_t type = mnl_attr_get_type(&attribute);
    if (type == IPSET_ATTR_IPADDR_IPV4) return netlink::address_value(attribute, Family::V4);
    if (type == IPSET_ATTR_IPADDR_IPV6) return netlink::address_value(attribute, Family::V6);
  }
  return std::nullopt;
}

uint32_t decode_references(const nlattr& header) {
  for (const nlattr& attribute : Attributes::inside(header)) {
    if (mnl_attr_get_type(&attribute) == IPSET_ATTR_REFERENCES)
      return ntohl(value<uint32_t>(attribute).value_or(0));
  }
  return 0;
}

// A member on its way out of a message. What was not there, or not well-formed, is empty.
struct Member {
  std::optional<IpAddr> ip;
  std::optional<uint16_t> port;
  std::optional<net::Protocol> protocol;
  std::optional<IpAddr> other;
  std::optional<uint8_t> other_length;

  bool whole(SetType type) const {
    return (ip || !has_address(type)) && (port || !has_port(type)) &&
           (protocol || !has_protocol(type)) && (other || !has_other(type));
  }
  SetEntry entry(SetType type) const {
    SetEntry made;
    if (has_address(type)) made.ip = *ip;
    if (has_port(type)) made.port = *port;
    if (has_protocol(type)) made.protocol = *protocol;
    if (has_other(type)) made.other = network(type);
    return made;
  }
  net::Cidr network(SetType type) const {
    if (type != SetType::HashIpPortNet || !other_length) return net::Cidr::host(*other);
    return {*other, std::min<int>(*other_length, other->bits())};
  }
};

Member decode_member(const nlattr& data) {
  Member member;
  for (const nlattr& attribute : Attributes::inside(data)) {
    switch (mnl_attr_get_type(&attribute)) {
      case IPSET_ATTR_IP:
        member.ip = decode_ip(attribute);
        break;
      case IPSET_ATTR_PORT:
        member.port = netlink::port_value(attribute);
        break;
      case IPSET_ATTR_PROTO:
        member.protocol = netlink::protocol_of(value<uint8_t>(attribute).value_or(0));
        break;
      case IPSET_ATTR_IP2:
        member.other = decode_ip(attribute);
        break;
      case IPSET_ATTR_CIDR2:
        member.other_length = value<uint8_t>(attribute);
        break;
      default:
        break;
    }
  }
  return member;
}

void append_members(std::vector<SetEntry>& out, const nlattr& list, SetType type) {
  for (const nlattr& data : Attributes::inside(list)) {
    if (mnl_attr_get_type(&data) != IPSET_ATTR_DATA) continue;
    if (const Member member = decode_member(data); member.whole(type))
      out.push_back(member.entry(type));
  }
}

}  // namespace

void put_entry(nlmsghdr* header, SetType type, const SetEntry& entry) {
  nlattr* data = mnl_attr_nest_start(header, IPSET_ATTR_DATA);
  if (has_address(type)) put_ip(header, IPSET_ATTR_IP, entry.ip);
  if (has_port(type))
    mnl_attr_put_u16(header, IPSET_ATTR_PORT | NLA_F_NET_BYTEORDER, htons(entry.port));
  if (has_protocol(type))
    mnl_attr_put_u8(header, IPSET_ATTR_PROTO, netlink::number(entry.protocol));
  if (has_other(type)) put_ip(header, IPSET_ATTR_IP2, entry.other.base());
  if (type == SetType::HashIpPortNet)
    mnl_attr_put_u8(header, IPSET_ATTR_CIDR2, static_cast<uint8_t>(entry.other.prefix_length()));
  mnl_attr_nest_end(header, data);
}

SetListing decode_set(const nlmsghdr& message) {
  SetListing set;
  for (const nlattr& attribute : Attributes::of(message, sizeof(nfgenmsg))) {
    switch (mnl_attr_get_type(&attribute)) {
      case IPSET_ATTR_SETNAME:
        set.name = netlink::text_value(attribute).value_or("");
        break;
      case IPSET_ATTR_TYPENAME:
        set.type = netlink::text_value(attribute).value_or("");
        break;
      case IPSET_ATTR_FAMILY:
        set.family = netlink::family_of(value<uint8_t>(attribute).value_or(0));
        break;
      case IPSET_ATTR_DATA:
        set.references = decode_references(attribute);
        break;
      default:
        break;
    }
  }
  return set;
}

std::vector<SetEntry> decode_members(const nlmsghdr& message, SetType type) {
  std::vector<SetEntry> members;
  for (const nlattr& attribute : Attributes::of(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(&attribute) == IPSET_ATTR_ADT) append_members(members, attribute, type);
  }
  return members;
}

}  // namespace kernel
