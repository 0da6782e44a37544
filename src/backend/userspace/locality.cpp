#include "backend/userspace/locality.h"

#include <algorithm>

#include "kernel/addresses.h"
#include "kernel/route.h"

namespace userspace {

using plan::LocalTraffic;

void Locality::set_addresses(std::vector<net::IpAddr> addresses) {
  const std::lock_guard lock(mutex_);
  addresses_ = std::move(addresses);
}

bool Locality::is_this_node(const net::IpAddr& client) const {
  if (client.is_loopback()) return true;
  const std::lock_guard lock(mutex_);
  return std::ranges::binary_search(addresses_, client);
}

bool Locality::contains(const net::IpAddr& client) const {
  if (is_this_node(client)) return true;
  if (pods_.by == LocalTraffic::By::Nothing) return false;
  if (pods_.by == LocalTraffic::By::Source) return pods_.cidr.contains(client);
  // Nobody without a route can have come.
  const std::string device = kernel::device_towards(client).value_or("");
  return pods_.by == LocalTraffic::By::Interface ? device == pods_.interface
                                                 : device.starts_with(pods_.interface);
}

base::Result<std::vector<net::IpAddr>> node_addresses(net::Family family) {
  std::vector<net::IpAddr> found;
  for (const auto& address : TRY(kernel::interface_addresses())) {
    const bool shared = family == net::Family::V6 && address.ip.is_link_local();
    if (address.ip.family() == family && !shared) found.push_back(address.ip);
  }
  std::ranges::sort(found);
  const auto repeated = std::ranges::unique(found);
  found.erase(repeated.begin(), repeated.end());
  return found;
}

}  // namespace userspace
