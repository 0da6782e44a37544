// The addresses of servers and proxies: scheme, host, port, and a path in front of all others. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace http {

struct Url {
  std::string scheme;  // lower case: "http", "https", "socks5", "socks5h"
  std::string host;    // without the brackets of an IPv6 address
  uint16_t port = 0;   // never 0: the scheme's own if none is written
  std::string path;    // "" or "/prefix" as it was written, without a slash at its end
  std::string user;    // of "user:password@host", decoded
  std::string password;

  bool tls() const { return scheme == "https"; }
  // "host:port", IPv6 in brackets.
  std::string authority() const;
  // Without user and password: fit for a log.
  std::string str() const;

  bool operator==(const Url&) const = default;
};

// "https://10.0.0.1:6443/prefix"; a text without a scheme is http. Query and fragment are left out.
// Errors repeat nothing of the text but its scheme: a password may stand anywhere else.
base::Result<Url> parse_url(std::string_view text);

// The text with every character that is not plain as %XX.
std::string escape(std::string_view text, bool (*is_plain)(char));

// Escapes for one value of a query: "spec.clusterIP!=None" -> "spec.clusterIP%21%3DNone".
std::string escape_query(std::string_view text);

}  // namespace http
