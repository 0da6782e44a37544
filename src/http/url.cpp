#include "http/url.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace http {
namespace {

using base::ErrorCode;
using base::Result;

std::unexpected<base::Error> invalid(std::string text) {
  return base::fail(ErrorCode::Invalid, "invalid URL: " + std::move(text));
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_scheme(std::string_view text) {
  return !text.empty() && is_letter(text[0]) && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
  });
}

std::optional<uint16_t> default_port(std::string_view scheme) {
  if (scheme == "http") return 80;
  if (scheme == "https") return 443;
  if (scheme == "socks5" || scheme == "socks5h") return 1080;
  return std::nullopt;
}

// "%41" -> "A".
Result<std::string> unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const auto byte = base::parse_number<uint8_t>(text.substr(i + 1, 2), 16);
    if (!byte || i + 2 >= text.size()) return invalid("a % without two hexadecimal digits");
    out += static_cast<char>(*byte);
    i += 2;
  }
  return out;
}

// Neither control characters nor spaces anywhere: what we send as HTTP must stay one line.
bool is_one_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7f;
  });
}

Result<> read_user(std::string_view text, Url& url) {
  const size_t colon = text.find(':');
  url.user = TRY(unescape(text.substr(0, colon)));
  if (colon != std::string_view::npos) url.password = TRY(unescape(text.substr(colon + 1)));
  return {};
}

// "[fd00::1%25eth0]" -> "fd00::1%eth0".
Result<std::string> read_bracketed(std::string_view text) {
  const std::string host = TRY(unescape(text));
  if (host.find(':') == std::string::npos || host.find_first_of("[]/\\") != std::string::npos ||
      !is_one_word(host)) {
    return invalid("no IPv6 address in brackets");
  }
  return host;
}

Result<std::string> read_name(std::string_view text) {
  if (text.empty()) return invalid("no host");
  if (text.find(':') != std::string_view::npos) {
    return invalid("an IPv6 address must stand in brackets");
  }
  if (text.find_first_of("<>\"\\^`{|}[]%,;") != std::string_view::npos) {
    return invalid("the host has characters that no name has");
  }
  return std::string(text);
}

Result<> read_port(std::string_view text, Url& url) {
  if (text.empty()) return {};
  const auto port = base::parse_number<uint16_t>(text);
  if (!port || *port == 0) return invalid("the port is no number from 1 to 65535");
  url.port = *port;
  return {};
}

Result<> read_host_port(std::string_view text, Url& url) {
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return invalid("a [ without its ]");
    url.host = TRY(read_bracketed(text.substr(1, end - 1)));
    text.remove_prefix(end + 1);
    if (text.empty()) return {};
    if (text[0] != ':') return invalid("text behind the ]");
    return read_port(text.substr(1), url);
  }
  const size_t colon = text.rfind(':');
  url.host = TRY(read_name(text.substr(0, colon)));
  if (colon == std::string_view::npos) return {};
  return read_port(text.substr(colon + 1), url);
}

}  // namespace

std::string Url::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  std::string out = v6 ? "[" + host + "]" : host;
  out += ':';
  base::append_number(out, port);
  return out;
}

std::string Url::str() const { return scheme + "://" + authority() + path; }

Result<Url> parse_url(std::string_view text) {
  if (!is_one_word(text)) return invalid("a space or control character");
  Url url{.scheme = "http"};
  const size_t colon = text.find("://");
  if (colon != std::string_view::npos && is_scheme(text.substr(0, colon))) {
    url.scheme = base::lower(text.substr(0, colon));
    text.remove_prefix(colon + 3);
  }
  const auto port = default_port(url.scheme);
  if (!port) return invalid("unsupported scheme " + base::quote(url.scheme));
  url.port = *port;

  text = text.substr(0, text.find_first_of("?#"));
  const size_t slash = text.find('/');
  std::string_view authority = text.substr(0, slash);
  if (slash != std::string_view::npos) {
    url.path = text.substr(slash);
    while (url.path.ends_with('/'))
      url.path.pop_back();
  }
  // Most likely a password with a slash in it, of which a part would now pass for a path.
  if (url.path.find('@') != std::string::npos) {
    return invalid("an @ behind the first /: write %2F for a / in a password, %40 for an @");
  }
  if (const size_t at = authority.rfind('@'); at != std::string_view::npos) {
    TRY(read_user(authority.substr(0, at), url));
    authority.remove_prefix(at + 1);
  }
  TRY(read_host_port(authority, url));
  return url;
}

std::string escape(std::string_view text, bool (*is_plain)(char)) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (is_plain(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::string escape_query(std::string_view text) {
  return escape(text, [](char c) {
    return is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.' || c == '~';
  });
}

}  // namespace http
