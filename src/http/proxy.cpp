#include "http/proxy.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "net/ip.h"

namespace http {
namespace {

using base::Result;

// The first of the two that is there and not empty.
std::string variable(const Environment& environment, std::string_view upper,
                     std::string_view lower) {
  for (const std::string_view name : {upper, lower}) {
    if (auto value = environment(name); value && !value->empty()) return *std::move(value);
  }
  return "";
}

// One piece of NO_PROXY: what it names, and the port to which it is limited, if any.
struct Exception {
  std::string host;
  std::string port;
};

Exception split_port(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t end = text.find("]:");
    if (end == std::string_view::npos) return {std::string(text), ""};
    return {std::string(text.substr(1, end - 1)), std::string(text.substr(end + 2))};
  }
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon != text.rfind(':')) return {std::string(text), ""};
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

// "example.com" is itself and all below it, ".example.com" and "*.example.com" only those below.
bool covers_name(std::string_view pattern, std::string_view name) {
  if (pattern.starts_with("*.")) pattern.remove_prefix(1);
  if (pattern.starts_with('.')) return name.ends_with(pattern);
  return name == pattern || name.ends_with("." + std::string(pattern));
}

bool exempts(std::string_view piece, const Url& server, const std::optional<net::IpAddr>& ip) {
  if (piece.empty()) return false;
  if (const auto cidr = net::Cidr::parse(piece)) return ip && cidr->contains(*ip);
  const Exception exception = split_port(piece);
  if (exception.host.empty()) return false;
  if (!exception.port.empty() && exception.port != std::to_string(server.port)) return false;
  if (const auto address = net::IpAddr::parse(exception.host)) return ip == address;
  return !ip && covers_name(exception.host, base::lower(server.host));
}

// Parity: a * anywhere counts, whatever else stands there.
bool is_exempt(const std::string& no_proxy, const Url& server) {
  // A zone ("fe80::1%eth0") is no part of the address.
  const auto ip =
      net::IpAddr::parse(std::string_view(server.host).substr(0, server.host.find('%')));
  if (base::lower(server.host) == "localhost" || (ip && ip->is_loopback())) return true;
  return std::ranges::any_of(base::split(no_proxy, ','), [&](std::string_view piece) {
    const std::string text = base::lower(base::trim(piece));
    return text == "*" || exempts(text, server, ip);
  });
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    // Nobody changes the environment once threads run. NOLINTNEXTLINE(concurrency-mt-unsafe)
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Result<std::optional<Url>> proxy_from_environment(const Url& server,
                                                  const Environment& environment) {
  const std::string text = server.tls() ? variable(environment, "HTTPS_PROXY", "https_proxy")
                                        : variable(environment, "HTTP_PROXY", "http_proxy");
  if (text.empty()) return std::nullopt;
  if (is_exempt(variable(environment, "NO_PROXY", "no_proxy"), server)) return std::nullopt;
  return TRY_CONTEXT(parse_url(text), server.tls() ? "HTTPS_PROXY" : "HTTP_PROXY");
}

}  // namespace http
