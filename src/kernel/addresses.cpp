#include "kernel/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <optional>

namespace kernel {
namespace {

std::optional<net::IpAddr> from_sockaddr(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    return net::IpAddr::v4(ntohl(v4.sin_addr.s_addr));
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  std::array<uint8_t, 16> bytes;
  std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
  return net::IpAddr::v6(bytes);
}

}  // namespace

base::Result<std::vector<InterfaceAddress>> interface_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return base::fail_errno("list interface addresses");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (const auto ip = from_sockaddr(one->ifa_addr))
      found.push_back({one->ifa_name, *ip, one->ifa_flags});
  }
  return found;
}

}  // namespace kernel
