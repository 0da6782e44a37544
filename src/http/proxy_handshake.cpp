#include "http/proxy_handshake.h"

#include <array>
#include <chrono>
#include <optional>

#include "http/basic_auth.h"
#include "http/watchdog.h"
#include "net/ip.h"

namespace http {
namespace {

using base::ErrorCode;
using base::Result;
using event::Async;

constexpr std::chrono::seconds kTimeout{30};
constexpr size_t kMaxAnswer = 16384;

Async<Result<>> read_exactly(ByteStream& stream, std::span<char> buffer) {
  while (!buffer.empty()) {
    const auto size = co_await stream.read_some(buffer);
    if (!size) co_return std::unexpected(size.error());
    if (*size == 0) co_return base::fail(ErrorCode::Lost, "the proxy closed the connection");
    buffer = buffer.subspan(*size);
  }
  co_return Result<>();
}

// The head of the answer, read byte by byte so that nothing behind it is lost.
Async<Result<std::string>> read_head(ByteStream& stream) {
  std::string head;
  while (!head.ends_with("\r\n\r\n")) {
    if (head.size() >= kMaxAnswer) {
      co_return base::fail(ErrorCode::Invalid, "the proxy's answer to CONNECT does not end");
    }
    std::array<char, 1> byte{};
    const auto got = co_await read_exactly(stream, byte);
    if (!got) co_return std::unexpected(got.error());
    head += byte[0];
  }
  co_return head;
}

Async<Result<>> connect_by_http(ByteStream& stream, const Url& proxy, const Url& server) {
  const std::string authority = server.authority();
  std::string request = "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n";
  if (const auto basic = proxy_authorization(proxy); !basic.empty())
    request += "Proxy-Authorization: " + basic + "\r\n";
  request += "\r\n";
  const auto sent = co_await stream.write(request);
  if (!sent) co_return std::unexpected(sent.error());
  const auto head = co_await read_head(stream);
  if (!head) co_return std::unexpected(head.error());
  // "HTTP/1.1 200 Connection established"
  const std::string line = head->substr(0, head->find("\r\n"));
  if (line.starts_with("HTTP/1.") && line.substr(8, 2) == " 2") co_return Result<>();
  std::string status = line.size() > 9 ? line.substr(9, 80) : "garbage";
  co_return base::fail(ErrorCode::Permission, "the proxy refused to connect: " + status);
}

std::string_view socks_problem(char code) {
  switch (code) {
    case 1:
      return "general failure";
    case 2:
      return "connection not allowed";
    case 3:
      return "network unreachable";
    case 4:
      return "host unreachable";
    case 5:
      return "connection refused";
    case 6:
      return "TTL expired";
    case 7:
      return "command not supported";
    case 8:
      return "address type not supported";
    default:
      return "unknown error";
  }
}

// RFC 1929.
Async<Result<>> authenticate_at_socks(ByteStream& stream, const Url& proxy) {
  if (proxy.user.size() > 255 || proxy.password.size() > 255)
    co_return base::fail(ErrorCode::Invalid, "the proxy's user or password is too long for SOCKS");
  std::string request = "\x01";
  request += static_cast<char>(proxy.user.size());
  request += proxy.user;
  request += static_cast<char>(proxy.password.size());
  request += proxy.password;
  const auto sent = co_await stream.write(request);
  if (!sent) co_return std::unexpected(sent.error());
  std::array<char, 2> answer{};
  const auto got = co_await read_exactly(stream, answer);
  if (!got) co_return std::unexpected(got.error());
  if (answer[1] != 0)
    co_return base::fail(ErrorCode::Permission, "the SOCKS proxy refused our user and password");
  co_return Result<>();
}

// The address of the server as SOCKS wants it; names are looked up by the proxy.
std::string socks_address(const Url& server) {
  std::string out;
  if (const auto ip = net::IpAddr::parse(server.host)) {
    const bool v4 = ip->family() == net::Family::V4;
    out += v4 ? '\x01' : '\x04';
    out.append(reinterpret_cast<const char*>(ip->data()), v4 ? 4 : 16);
  } else {
    out += '\x03';
    out += static_cast<char>(server.host.size());
    out += server.host;
  }
  out += static_cast<char>(server.port >> 8);
  out += static_cast<char>(server.port & 0xff);
  return out;
}

// Version 5, and the ways to say who we are that we offer: nothing, or a name and a password too.
std::string_view socks_greeting(bool with_user) {
  using namespace std::string_view_literals;
  return with_user ? "\x05\x02\x00\x02"sv : "\x05\x01\x00"sv;
}

Async<Result<>> greet_socks(ByteStream& stream, const Url& proxy) {
  const bool with_user = !proxy.user.empty();
  const std::string_view greeting = socks_greeting(with_user);
  const auto sent = co_await stream.write(greeting);
  if (!sent) co_return std::unexpected(sent.error());
  std::array<char, 2> choice{};
  const auto got = co_await read_exactly(stream, choice);
  if (!got) co_return std::unexpected(got.error());
  if (choice[0] != 5) co_return base::fail(ErrorCode::Invalid, "the proxy does not speak SOCKS 5");
  if (choice[1] == 0) co_return Result<>();
  if (choice[1] != 2 || !with_user)
    co_return base::fail(ErrorCode::Permission, "the SOCKS proxy wants another way to log in");
  auto done = co_await authenticate_at_socks(stream, proxy);
  co_return std::move(done);
}

Async<Result<>> connect_by_socks(ByteStream& stream, const Url& proxy, const Url& server) {
  const auto greeted = co_await greet_socks(stream, proxy);
  if (!greeted) co_return std::unexpected(greeted.error());
  if (server.host.size() > 255)
    co_return base::fail(ErrorCode::Invalid, "the server's name is too long for SOCKS");
  const std::string request = std::string("\x05\x01\x00", 3) + socks_address(server);
  const auto sent = co_await stream.write(request);
  if (!sent) co_return std::unexpected(sent.error());
  std::array<char, 5> head{};  // version, code, 0, address type, first byte of the address
  auto got = co_await read_exactly(stream, head);
  if (!got) co_return std::unexpected(got.error());
  if (head[1] != 0)
    co_return base::fail(ErrorCode::Refused,
                         "the SOCKS proxy cannot connect: " + std::string(socks_problem(head[1])));
  size_t rest = 2;  // the port
  if (head[3] == 1) rest += 3;
  if (head[3] == 4) rest += 15;
  if (head[3] == 3) rest += static_cast<unsigned char>(head[4]);
  std::array<char, 260> address{};
  const std::span<char> tail = std::span(address).first(rest);
  got = co_await read_exactly(stream, tail);
  co_return std::move(got);
}

}  // namespace

std::string proxy_authorization(const Url& proxy) {
  if (proxy.user.empty() && proxy.password.empty()) return {};
  return basic_authorization(proxy.user, proxy.password);
}

bool in_absolute_form(const std::optional<Url>& proxy, const Url& server) {
  return proxy && !proxy->scheme.starts_with("socks") && !server.tls();
}

Async<Result<>> pass_proxy(ByteStream& stream, const Url& proxy, const Url& server) {
  if (in_absolute_form(proxy, server)) co_return Result<>();
  const auto executor = co_await boost::asio::this_coro::executor;
  Watchdog watchdog(executor, [&] { stream.close(); });
  watchdog.arm(kTimeout);
  Result<> done;
  if (proxy.scheme.starts_with("socks")) {
    done = co_await connect_by_socks(stream, proxy, server);
  } else {
    done = co_await connect_by_http(stream, proxy, server);
  }
  if (watchdog.barked())
    co_return base::fail(ErrorCode::Timeout,
                         "the proxy " + proxy.str() + " did not answer within 30 s");
  if (!done) co_return std::unexpected(done.error().in("proxy " + proxy.str()));
  co_return std::move(done);
}

}  // namespace http
