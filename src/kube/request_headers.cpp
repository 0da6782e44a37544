#include "kube/request_headers.h"

#include <algorithm>

#include "base/text.h"
#include "http/url.h"

namespace kube {
namespace {

// "example.org/scopes" -> "example.org%2Fscopes": characters that the name of a header may have (RFC 7230, "token"). Of these % is escaped as well, as
// the server decodes the name.
bool may_stand_in_a_name(char c) {
  constexpr std::string_view kOthers = "!#$&'*+-.^_`|~";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOthers.find(c) != std::string_view::npos;
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

}  // namespace

Headers impersonation_headers(const config::Impersonation& impersonation) {
  Headers headers;
  if (impersonation.user.empty()) return headers;
  headers.emplace_back("Impersonate-User", impersonation.user);
  if (!impersonation.uid.empty()) headers.emplace_back("Impersonate-Uid", impersonation.uid);
  for (const std::string& group : impersonation.groups)
    headers.emplace_back("Impersonate-Group", group);
  for (const auto& [key, values] : impersonation.extra) {
    for (const std::string& value : values)
      headers.emplace_back("Impersonate-Extra-" + http::escape(key, may_stand_in_a_name), value);
  }
  return headers;
}

base::Result<> check_values(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (std::ranges::any_of(value, is_control)) {
      return base::fail(base::ErrorCode::Invalid,
                        "net/http: invalid header field value for " + base::quote(name));
    }
  }
  return {};
}

}  // namespace kube
