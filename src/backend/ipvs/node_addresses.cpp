#include "backend/ipvs/node_addresses.h"

#include <algorithm>

namespace ipvs {
namespace {

void make_unique(std::vector<net::IpAddr>& ips) {
  std::ranges::sort(ips);
  const auto repeated = std::ranges::unique(ips);
  ips.erase(repeated.begin(), repeated.end());
}

}  // namespace

bool counts(const net::IpAddr& ip) {
  if (ip.is_loopback()) return false;
  return ip.family() == net::Family::V4 || !ip.is_link_local();
}

NodeAddresses node_addresses(const std::vector<kernel::DeviceAddress>& all, unsigned ours,
                             const std::vector<net::Cidr>& node_port_cidrs) {
  NodeAddresses found;
  for (const auto& address : all) {
    if (address.device != ours && counts(address.ip)) found.own.push_back(address.ip);
  }
  make_unique(found.own);
  std::ranges::copy_if(found.own, std::back_inserter(found.node_ports), [&](const net::IpAddr& ip) {
    return node_port_cidrs.empty() ||
           std::ranges::any_of(node_port_cidrs,
                               [&](const net::Cidr& cidr) { return cidr.contains(ip); });
  });
  return found;
}

std::vector<net::IpAddr> bound_addresses(const std::vector<kernel::DeviceAddress>& all,
                                         unsigned ours) {
  std::vector<net::IpAddr> bound;
  for (const auto& address : all) {
    if (address.device == ours && counts(address.ip)) bound.push_back(address.ip);
  }
  make_unique(bound);
  return bound;
}

}  // namespace ipvs
