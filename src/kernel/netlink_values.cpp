#include "kernel/netlink_values.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

namespace kernel::netlink {
namespace {

using net::Family;
using net::IpAddr;
using net::Protocol;

constexpr std::array<uint8_t, 3> kProtocolNumbers{IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};

}  // namespace

std::optional<uint16_t> port_value(const nlattr& attribute) {
  const auto port = value<uint16_t>(attribute);
  if (!port) return std::nullopt;
  return ntohs(*port);
}

std::optional<IpAddr> address_value(const nlattr& attribute, Family family) {
  std::array<uint8_t, 16> bytes{};
  const size_t size = family == Family::V4 ? 4 : 16;
  if (mnl_attr_get_payload_len(&attribute) < size) return std::nullopt;
  std::memcpy(bytes.data(), mnl_attr_get_payload(&attribute), size);
  if (family == Family::V6) return IpAddr::v6(bytes);
  uint32_t v4 = 0;
  std::memcpy(&v4, bytes.data(), sizeof v4);
  return IpAddr::v4(ntohl(v4));
}

std::optional<std::string_view> text_value(const nlattr& attribute) {
  if (mnl_attr_validate(&attribute, MNL_TYPE_NUL_STRING) < 0) return std::nullopt;
  return mnl_attr_get_str(&attribute);
}

void put_address(nlmsghdr* header, uint16_t type, const IpAddr& ip) {
  mnl_attr_put(header, type, static_cast<size_t>(ip.bits()) / 8, ip.data());
}

uint8_t address_family(Family family) { return family == Family::V4 ? AF_INET : AF_INET6; }

std::optional<Family> family_of(unsigned address_family) {
  if (address_family == AF_INET) return Family::V4;
  if (address_family == AF_INET6) return Family::V6;
  return std::nullopt;
}

uint8_t number(Protocol protocol) { return kProtocolNumbers[static_cast<size_t>(protocol)]; }

std::optional<Protocol> protocol_of(unsigned number) {
  const auto* found = std::ranges::find(kProtocolNumbers, number);
  if (found == kProtocolNumbers.end()) return std::nullopt;
  return static_cast<Protocol>(found - kProtocolNumbers.begin());
}

}  // namespace kernel::netlink
