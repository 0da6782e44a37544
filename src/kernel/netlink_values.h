// Values inside netlink messages that several of the kernel's facilities write alike. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include <libmnl/libmnl.h>

#include "net/ip.h"

namespace kernel::netlink {

// The value of an attribute that has exactly the size of a T.
template <typename T>
std::optional<T> value(const nlattr& attribute) {
  T out;
  if (mnl_attr_get_payload_len(&attribute) != sizeof out) return std::nullopt;
  std::memcpy(&out, mnl_attr_get_payload(&attribute), sizeof out);
  return out;
}

// A port, or any number of 16 bits that is in network order.
std::optional<uint16_t> port_value(const nlattr& attribute);
// An address of that family; what may follow it is not looked at: some have room for the longer kind.
std::optional<net::IpAddr> address_value(const nlattr& attribute, net::Family family);
// Empty if it is not closed by a NUL.
std::optional<std::string_view> text_value(const nlattr& attribute);

// Its 4 or 16 bytes.
void put_address(nlmsghdr* header, uint16_t type, const net::IpAddr& ip);

// AF_INET, AF_INET6
uint8_t address_family(net::Family family);
std::optional<net::Family> family_of(unsigned address_family);

// IPPROTO_TCP and the like
uint8_t number(net::Protocol protocol);
std::optional<net::Protocol> protocol_of(unsigned number);

}  // namespace kernel::netlink
