#include "config/kubeconfig_server.h"

#include <algorithm>

#include "base/text.h"

namespace config::kubeconfig {
namespace {

using base::ErrorCode;
using base::Result;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "https://host:1/path" in pieces; without a scheme everything is rest.
struct Pieces {
  std::string scheme;  // lower case
  std::string_view authority;
  std::string_view path;
};

std::string scheme_of(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || !is_letter(text[0])) return "";
  const std::string_view scheme = text.substr(0, colon);
  const bool good = std::ranges::all_of(scheme, [](char c) {
    return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
  });
  return good ? base::lower(scheme) : "";
}

Pieces split(std::string_view text) {
  Pieces pieces;
  text = text.substr(0, text.find_first_of("?#"));
  pieces.scheme = scheme_of(text);
  if (!pieces.scheme.empty()) text.remove_prefix(pieces.scheme.size() + 1);
  if (text.starts_with("//")) {
    text.remove_prefix(2);
    const size_t slash = text.find('/');
    pieces.authority = text.substr(0, slash);
    text = slash == std::string_view::npos ? "" : text.substr(slash);
  }
  pieces.path = text;
  return pieces;
}

bool is_port(std::string_view text) { return std::ranges::all_of(text, is_digit); }

// "user@host:port" with nothing in it that no host has.
bool is_authority(std::string_view text) {
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) text.remove_prefix(at + 1);
  constexpr std::string_view kStrange = "<>\"\\^`{|}";
  const bool strange = std::ranges::any_of(text, [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7f || kStrange.find(c) != std::string_view::npos;
  });
  if (strange) return false;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
    return text.empty() || (text[0] == ':' && is_port(text.substr(1)));
  }
  const size_t colon = text.find(':');
  return colon == std::string_view::npos || is_port(text.substr(colon + 1));
}

}  // namespace

std::string redacted(std::string_view text) {
  const size_t at = text.rfind('@');
  if (at == std::string_view::npos) return std::string(text);
  const size_t slashes = text.find("://");
  const std::string_view front =
      slashes == std::string_view::npos || slashes > at ? "" : text.substr(0, slashes + 3);
  return std::string(front) + "xxxxx" + std::string(text.substr(at));
}

Result<std::string> complete_server(std::string_view text) {
  const Pieces given = split(text);
  const std::string_view address = text.substr(0, text.find_first_of("?#"));
  if (!given.scheme.empty() && !given.authority.empty() && is_authority(given.authority)) {
    if (given.scheme == "http" || given.scheme == "https") return std::string(address);
    // Parity: the real one starts, and fails in every request.
    return base::fail(ErrorCode::Unsupported,
                      "unsupported protocol scheme " + base::quote(given.scheme));
  }
  const std::string completed = "http://" + std::string(address);
  const Pieces pieces = split(completed);
  if (pieces.authority.empty() || !is_authority(pieces.authority) ||
      (!pieces.path.empty() && pieces.path != "/")) {
    return base::fail(ErrorCode::Invalid,
                      "host must be a URL or a host:port pair: " + base::quote(redacted(text)));
  }
  return completed;
}

Result<> check_proxy_url(std::string_view text) {
  const Pieces pieces = split(text);
  // Without a scheme a colon cannot stand in what is then a path.
  const bool no_url = pieces.scheme.empty() && text.find(':') != std::string_view::npos;
  if (no_url || !is_authority(pieces.authority)) {
    return base::fail(ErrorCode::Invalid, "could not parse: " + redacted(text));
  }
  if (pieces.scheme == "http" || pieces.scheme == "https" || pieces.scheme == "socks5") return {};
  return base::fail(ErrorCode::Invalid, "unsupported scheme " + base::quote(pieces.scheme) +
                                            ", must be http, https, or socks5");
}

}  // namespace config::kubeconfig
