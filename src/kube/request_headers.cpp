#include "kube/request_headers.h"

#include <algorithm>

#include <openssl/evp.h>

#include "base/text.h"

namespace kube {
namespace {

// Characters that the name of a header may have (RFC 7230, "token"). Of these % is escaped as well, as
// the server decodes the name.
bool may_stand_in_a_name(char c) {
  constexpr std::string_view kOthers = "!#$&'*+-.^_`|~";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOthers.find(c) != std::string_view::npos;
}

// "example.org/scopes" -> "example.org%2Fscopes".
std::string escape_name(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (may_stand_in_a_name(c)) {
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

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and the zero that it writes
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(size));
  return out;
}

Headers impersonation_headers(const config::Impersonation& impersonation) {
  Headers headers;
  if (impersonation.user.empty()) return headers;
  headers.emplace_back("Impersonate-User", impersonation.user);
  if (!impersonation.uid.empty()) headers.emplace_back("Impersonate-Uid", impersonation.uid);
  for (const std::string& group : impersonation.groups)
    headers.emplace_back("Impersonate-Group", group);
  for (const auto& [key, values] : impersonation.extra) {
    for (const std::string& value : values)
      headers.emplace_back("Impersonate-Extra-" + escape_name(key), value);
  }
  return headers;
}

std::string basic_authorization(const std::string& user, const std::string& password) {
  return "Basic " + encode_base64(user + ":" + password);
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
