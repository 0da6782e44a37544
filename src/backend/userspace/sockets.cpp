#include "backend/userspace/sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string>

#include "relay/socket_address.h"
#include "relay/socket_options.h"

namespace userspace {
namespace {

using base::ErrorCode;
using base::Fd;
using base::Result;
using relay::set_option;

// Nobody has it, and nobody would bind it.
constexpr uint16_t kNowhere = 1;

// "listen tcp 10.0.0.1:80"
std::string what(const Place& place) {
  std::string out = "listen ";
  out += net::lower_name(place.protocol);
  out += ' ';
  net::append_endpoint(out, place.ip, place.port);
  return out;
}

Result<> failure(const Place& place) {
  base::Error error = base::errno_error(what(place), errno);
  if (errno == EADDRINUSE) error.code = ErrorCode::Exists;
  return std::unexpected(std::move(error));
}

Result<Fd> make_socket(const Place& place) {
  const bool v4 = place.ip.family() == net::Family::V4;
  const int type = place.protocol == net::Protocol::Udp ? SOCK_DGRAM : SOCK_STREAM;
  Fd socket(::socket(v4 ? AF_INET : AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket || (!v4 && !set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1)))
    return std::unexpected(failure(place).error());
  return socket;
}

Result<> bind(int socket, const Place& place) {
  const relay::SocketAddress address(place.ip, place.port);
  if (::bind(socket, address.get(), address.size()) != 0) return failure(place);
  return {};
}

bool is_listening(int socket) {
  int listening = 0;
  socklen_t size = sizeof listening;
  return ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
}

net::IpAddr loopback(net::Family family) {
  if (family == net::Family::V4) return net::IpAddr::v4(INADDR_LOOPBACK);
  std::array<uint8_t, 16> bytes{};
  bytes.back() = 1;
  return net::IpAddr::v6(bytes);
}

}  // namespace

Result<Fd> bind_front(const Place& place) {
  Fd socket = TRY(make_socket(place));
  // SO_REUSEADDR: connections of a former process may linger.
  if (place.protocol == net::Protocol::Tcp &&
      !(set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1) &&
        relay::set_tcp_options(socket.get())))
    return std::unexpected(failure(place).error());
  TRY(bind(socket.get(), place));
  return socket;
}

Result<Fd> bind_claim(const Place& place) {
  Fd socket = TRY(make_socket(place));
  TRY(bind(socket.get(), place));
  TRY(refuse(socket.get(), place));
  return socket;
}

Result<uint16_t> pick_port(net::Protocol protocol, const net::IpAddr& ip) {
  const Place anywhere{.protocol = protocol, .ip = ip, .port = 0};
  const Fd socket = TRY(make_socket(anywhere));
  TRY(bind(socket.get(), anywhere));
  relay::SocketAddress address;
  socklen_t size = relay::SocketAddress::capacity();
  if (::getsockname(socket.get(), address.buffer(), &size) != 0)
    return std::unexpected(failure(anywhere).error());
  return address.peer().port;
}

Result<> serve(int socket, const Place& place) {
  if (place.protocol == net::Protocol::Udp || is_listening(socket)) return {};
  // The kernel cuts it to net.core.somaxconn.
  if (::listen(socket, INT_MAX) != 0) return failure(place);
  return {};
}

Result<> refuse(int socket, const Place& place) {
  if (place.protocol == net::Protocol::Udp) {
    const relay::SocketAddress nowhere(loopback(place.ip.family()), kNowhere);
    if (::connect(socket, nowhere.get(), nowhere.size()) != 0) return failure(place);
    return {};
  }
  if (is_listening(socket) && ::shutdown(socket, SHUT_RD) != 0) return failure(place);
  return {};
}

Result<Fd> replace_refusing(int socket, const Place& place,
                            const std::function<Result<>(int)>& prepare) {
  Fd fresh = TRY(make_socket(place));
  TRY(prepare(fresh.get()));
  const auto share = [&](int one, int whether) {
    return set_option(one, SOL_SOCKET, SO_REUSEADDR, whether);
  };
  if (!share(socket, 1) || !share(fresh.get(), 1)) return std::unexpected(failure(place).error());
  const auto bound = bind(fresh.get(), place);
  // Nobody else may join them.
  if (!share(socket, 0) || !share(fresh.get(), 0)) return std::unexpected(failure(place).error());
  TRY(bound);
  return fresh;
}

}  // namespace userspace
