#include "daemon/host_address.h"

#include <net/if.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/text.h"

namespace proxyd {
namespace {

using kernel::InterfaceAddress;
using net::Family;
using net::IpAddr;

// In linux/route.h and linux/ipv6_route.h: such a route refuses what it matches.
constexpr uint32_t kReject = 0x200;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(std::move(word));
  return words;
}

bool is_zero(const std::string& hex) { return hex.find_first_not_of('0') == std::string::npos; }

bool rejects(const std::string& flags) {
  return (base::parse_number<uint32_t>(flags, 16).value_or(kReject) & kReject) != 0;
}

// Columns: interface, destination, gateway, flags, ..., mask (8th).
std::optional<std::string> v4_default_interface(const std::vector<std::string>& words) {
  if (words.size() < 8 || !is_zero(words[1]) || !is_zero(words[7]) || rejects(words[3]))
    return std::nullopt;
  return words[0];
}

// Columns: destination, its length, source, its length, gateway, metric, references, uses, flags, interface.
std::optional<std::string> v6_default_interface(const std::vector<std::string>& words) {
  if (words.size() < 10 || !is_zero(words[0]) || !is_zero(words[1]) || rejects(words[8]))
    return std::nullopt;
  return words[9];
}

bool has(const InterfaceAddress& address, uint32_t flag) { return (address.flags & flag) != 0; }

// Those that a neighbour could know, of interfaces that are up.
std::vector<InterfaceAddress> global_addresses(Family family,
                                               const std::vector<InterfaceAddress>& addresses) {
  std::vector<InterfaceAddress> found;
  std::ranges::copy_if(addresses, std::back_inserter(found), [&](const InterfaceAddress& address) {
    const IpAddr& ip = address.ip;
    return ip.family() == family && has(address, IFF_UP) && !ip.is_unspecified() &&
           !ip.is_loopback() && !ip.is_link_local();
  });
  return found;
}

template <typename Matches>
std::optional<IpAddr> first(const std::vector<InterfaceAddress>& addresses, Matches matches) {
  const auto found = std::ranges::find_if(addresses, matches);
  return found == addresses.end() ? std::nullopt : std::optional(found->ip);
}

}  // namespace

std::vector<std::string> default_route_interfaces(Family family, std::istream& table) {
  std::vector<std::string> interfaces;
  for (std::string line; std::getline(table, line);) {
    const auto words = words_of(line);
    const auto found =
        family == Family::V4 ? v4_default_interface(words) : v6_default_interface(words);
    if (found) interfaces.push_back(*found);
  }
  return interfaces;
}

std::optional<IpAddr> choose_host_address(Family family,
                                          const std::vector<std::string>& default_interfaces,
                                          const std::vector<InterfaceAddress>& addresses,
                                          const IpAddr& node_ip) {
  const auto global = global_addresses(family, addresses);
  for (const auto& name : default_interfaces) {
    if (const auto ip = first(global, [&](const auto& one) { return one.interface == name; }))
      return ip;
    // Interfaces between routers may have link-local addresses only; the node's own is then on loopback (RFC 5549).
    if (const auto ip = first(global, [](const auto& one) { return has(one, IFF_LOOPBACK); }))
      return ip;
  }
  if (const auto ip = first(global, [&](const auto& one) { return one.ip == node_ip; })) return ip;
  const auto usual = [](const auto& one) {
    return !has(one, IFF_LOOPBACK) && !has(one, IFF_POINTOPOINT);
  };
  if (const auto ip = first(global, usual)) return ip;
  return first(global, [](const auto&) { return true; });
}

base::Result<IpAddr> host_address(const config::Config& config, const NodeFacts& node,
                                  Family family) {
  const auto bind = IpAddr::parse(config.bind_address);
  if (bind && !bind->is_unspecified() && bind->family() == family) return *bind;
  std::ifstream routes(family == Family::V4 ? "/proc/net/route" : "/proc/net/ipv6_route");
  const auto chosen = choose_host_address(family, default_route_interfaces(family, routes),
                                          TRY(kernel::interface_addresses()),
                                          node.ips[static_cast<size_t>(family)]);
  if (chosen) return *chosen;
  return base::fail(base::ErrorCode::NotFound, "no interface that is up has a global " +
                                                   std::string(net::name(family)) + " address");
}

}  // namespace proxyd
