#include "http/server_socket.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace http {
namespace {

using base::Result;

struct Address {
  net::IpAddr ip;
  uint16_t port = 0;
};

std::optional<Address> parse_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const auto ip = net::IpAddr::parse(host);
  const auto port = base::parse_number<uint16_t>(text.substr(colon + 1));
  if (!ip || !port) return std::nullopt;
  return Address{*ip, *port};
}

// `any_v6`: the unspecified IPv6 address, whatever the family of `address`.
Result<> bind_to(const base::Fd& fd, const Address& address, bool any_v6) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (any_v6 || address.ip.family() == net::Family::V6) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    *v6 = {.sin6_family = AF_INET6, .sin6_port = ::htons(address.port), .sin6_addr = {}};
    if (!any_v6) std::copy_n(address.ip.data(), sizeof v6->sin6_addr, v6->sin6_addr.s6_addr);
    size = sizeof *v6;
  } else {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    *v4 = {.sin_family = AF_INET, .sin_port = ::htons(address.port), .sin_addr = {}};
    std::copy_n(address.ip.data(), sizeof v4->sin_addr, reinterpret_cast<uint8_t*>(&v4->sin_addr));
    size = sizeof *v4;
  }
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0) {
    return base::fail_errno("bind");
  }
  return {};
}

Result<> set_option(const base::Fd& fd, int level, int option, int value) {
  if (::setsockopt(fd.get(), level, option, &value, sizeof value) != 0) {
    return base::fail_errno("setsockopt");
  }
  return {};
}

// The kernel hands out the lowest number that is free: one that is close to the limit says that
// nearly all are taken.
Result<> keep_spare(const base::Fd& fd, size_t spare) {
  rlimit limit{};
  if (spare == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  if (static_cast<rlim_t>(fd.get()) + spare < limit.rlim_cur) return {};
  return std::unexpected(base::errno_error("socket", EMFILE));
}

Result<ListeningSocket> make_socket(net::Family family) {
  const int domain = family == net::Family::V6 ? AF_INET6 : AF_INET;
  base::Fd fd(::socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return base::fail_errno("socket");
  return ListeningSocket{std::move(fd), family};
}

// Both families where the kernel has both.
Result<ListeningSocket> make_wildcard_socket(net::Family family) {
  auto both = make_socket(net::Family::V6);
  return both || family == net::Family::V6 ? std::move(both) : make_socket(net::Family::V4);
}

Result<ListeningSocket> open(const Address& address, const ListenOptions& options) {
  const bool both = address.ip.is_unspecified() && !options.one_family;
  const net::Family family = address.ip.family();
  auto socket = TRY(both ? make_wildcard_socket(family) : make_socket(family));
  TRY(keep_spare(socket.fd, options.spare_descriptors));
  const bool v6 = socket.family == net::Family::V6;
  if (v6) TRY(set_option(socket.fd, IPPROTO_IPV6, IPV6_V6ONLY, both ? 0 : 1));
  // Connections of a process before us that are not quite closed do not keep us from listening.
  TRY(set_option(socket.fd, SOL_SOCKET, SO_REUSEADDR, 1));
  TRY(bind_to(socket.fd, address, both && v6));
  if (::listen(socket.fd.get(), SOMAXCONN) != 0) return base::fail_errno("listen");
  return socket;
}

// What Go calls it: "tcp4" and "tcp6" are one family, where "tcp" might be both.
std::string_view network_name(const Address& address, const ListenOptions& options) {
  if (!options.one_family) return "tcp";
  return address.ip.family() == net::Family::V6 ? "tcp6" : "tcp4";
}

// accept(2): what is wrong with a client that has gone away or cannot be reached any more.
bool only_this_client(int error) {
  for (const int one : {EAGAIN, EINTR, ECONNABORTED, EPERM, EPROTO, ENETDOWN, ENOPROTOOPT,
                        EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH}) {
    if (error == one) return true;
  }
  return false;
}

}  // namespace

Result<ListeningSocket> open_listening_socket(const std::string& address,
                                              const ListenOptions& options) {
  const auto parsed = parse_address(address);
  if (!parsed) {
    return base::fail(base::ErrorCode::Invalid, "listen tcp: address " + address + ": not IP:port");
  }
  return TRY_CONTEXT(open(*parsed, options),
                     "listen " + std::string(network_name(*parsed, options)) + " " + address);
}

Result<base::Fd> accept_client(int listening, size_t spare_descriptors) {
  base::Fd fd(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd && only_this_client(errno)) return fd;
  if (!fd) return base::fail_errno("accept");
  TRY(keep_spare(fd, spare_descriptors));
  return fd;
}

}  // namespace http
