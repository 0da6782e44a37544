// One more address for the loopback device of a network namespace.
#pragma once

#include <linux/if.h>
#include <linux/ipv6.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>

#include "base/fd.h"
#include "net/ip.h"

namespace build {
namespace detail {

inline bool add_ipv4(const net::IpAddr& address) {
  const base::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  std::memcpy(&name.sin_addr, address.data(), sizeof name.sin_addr);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo:1");  // an address beside the one that it has
  std::memcpy(&request.ifr_addr, &name, sizeof name);
  return ::ioctl(socket.get(), SIOCSIFADDR, &request) == 0;
}

// A datagram that is sent there arrives.
inline bool is_reached(const sockaddr_in6& address, std::chrono::milliseconds patience) {
  const base::Fd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in6 own{};
  own.sin6_family = AF_INET6;
  socklen_t size = sizeof own;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    return false;
  sockaddr_in6 to = address;
  to.sin6_port = own.sin6_port;
  const auto end = std::chrono::steady_clock::now() + patience;
  do {
    ::sendto(socket.get(), "x", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    pollfd waited{.fd = socket.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waited, 1, 10) > 0) return true;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

inline bool add_ipv6(const net::IpAddr& address, std::chrono::milliseconds patience) {
  constexpr int kLoopback = 1;  // its number in every network namespace
  const base::Fd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  std::memcpy(&name.sin6_addr, address.data(), sizeof name.sin6_addr);
  in6_ifreq request{.ifr6_addr = name.sin6_addr, .ifr6_prefixlen = 128, .ifr6_ifindex = kLoopback};
  if (::ioctl(socket.get(), SIOCSIFADDR, &request) != 0) return false;
  return is_reached(name, patience);
}

}  // namespace detail

// Returns once packets to the address are delivered. For an address of IPv6 that is later than the call that adds
// it: until a thread of the kernel has taken it into use, packets to it are lost without a word.
// False: this machine has no such family, or the time is over.
inline bool add_to_loopback(const net::IpAddr& address,
                            std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  return address.family() == net::Family::V4 ? detail::add_ipv4(address)
                                             : detail::add_ipv6(address, patience);
}

}  // namespace build
