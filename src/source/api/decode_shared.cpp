#include "source/api/decode_shared.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/text.h"

namespace source::api {

namespace {

// By Resource.
constexpr std::array<Kind, kResources> kKinds{{
    {.api_version = "v1", .name = "Service", .namespaced = true, .label_name = true},
    {.api_version = "discovery.k8s.io/v1", .name = "EndpointSlice", .namespaced = true},
    {.api_version = "networking.k8s.io/v1", .name = "ServiceCIDR"},
    {.api_version = "v1", .name = "Node"},
}};

constexpr std::array<std::pair<std::string_view, EventType>, 5> kEventTypes{{
    {"ADDED", EventType::Added},
    {"MODIFIED", EventType::Modified},
    {"DELETED", EventType::Deleted},
    {"BOOKMARK", EventType::Bookmark},
    {"ERROR", EventType::Error},
}};

constexpr size_t kMaxVersion = 64;
constexpr size_t kMaxToken = 16 << 10;
constexpr size_t kMaxName = 253;
constexpr size_t kMaxQuoted = 80;

bool is_graphic(char c) { return c > 0x20 && c < 0x7f; }

base::Result<> expect(std::string_view expected_version, std::string expected_kind,
                      std::string_view api_version, std::string_view kind) {
  if (kind == expected_kind && api_version == expected_version) return {};
  std::string got = kind.empty() ? "an object without kind" : printable(kind, kMaxQuoted);
  if (kind == expected_kind) {
    expected_kind.insert(0, std::string(expected_version) + " ");
    got.insert(0, printable(api_version, kMaxQuoted) + " ");
  }
  return base::fail(base::ErrorCode::Invalid, "expected " + expected_kind + ", got " + got);
}

base::Result<> check_graphic(std::string_view what, std::string_view text, size_t most) {
  if (text.size() <= most && std::ranges::all_of(text, is_graphic)) return {};
  return base::fail(base::ErrorCode::Invalid, "unusable " + std::string(what) + ": " +
                                                  base::quote(printable(text, kMaxQuoted)));
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// The name as it is if it is short and plain, otherwise the start of it in quotes.
std::string plain_or_quoted(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
  if (plain && text.size() <= kMaxName) return std::string(text);
  std::string start(text.substr(0, kMaxQuoted));
  std::ranges::replace_if(start, std::not_fn(is_ascii), '?');
  return base::quote(start);
}

struct Reason {
  int code;
  std::string_view name;
};

// apimachinery's StatusReason; the first of a code is the one that is meant if none is said.
constexpr std::array kReasons{
    Reason{400, "BadRequest"},
    Reason{401, "Unauthorized"},
    Reason{403, "Forbidden"},
    Reason{404, "NotFound"},
    Reason{405, "MethodNotAllowed"},
    Reason{406, "NotAcceptable"},
    Reason{409, "Conflict"},
    Reason{410, "Expired"},
    Reason{410, "Gone"},
    Reason{413, "RequestEntityTooLarge"},
    Reason{415, "UnsupportedMediaType"},
    Reason{422, "Invalid"},
    Reason{429, "TooManyRequests"},
    Reason{500, "InternalError"},
    Reason{503, "ServiceUnavailable"},
    Reason{504, "Timeout"},
};

// 0 if it is not known.
int code_of(std::string_view reason) {
  const auto* known = std::ranges::find(kReasons, reason, &Reason::name);
  return known == kReasons.end() ? 0 : known->code;
}

// Empty if it is not known.
std::string_view reason_of(int code) {
  const auto* known = std::ranges::find(kReasons, code, &Reason::code);
  if (known != kReasons.end()) return known->name;
  return code >= 500 ? "InternalError" : "";
}

}  // namespace

const Kind& kind_of(Resource resource) { return kKinds[static_cast<size_t>(resource)]; }

base::Result<> expect_object(const Kind& expected, std::string_view api_version,
                             std::string_view kind) {
  return expect(expected.api_version, std::string(expected.name), api_version, kind);
}

base::Result<> expect_list(const Kind& expected, std::string_view api_version,
                           std::string_view kind) {
  return expect(expected.api_version, std::string(expected.name) + "List", api_version, kind);
}

base::Result<EventType> event_type(std::string_view name) {
  for (const auto& [known, type] : kEventTypes) {
    if (name == known) return type;
  }
  return base::fail(base::ErrorCode::Invalid,
                    "unknown type of event: " + base::quote(printable(name, kMaxQuoted)));
}

base::Result<> check_version(std::string_view resource_version) {
  return check_graphic("resourceVersion", resource_version, kMaxVersion);
}

base::Result<> check_token(std::string_view continue_token) {
  return check_graphic("continue token", continue_token, kMaxToken);
}

std::string describe(const Kind& kind, std::string_view ns, std::string_view name) {
  std::string out(kind.name);
  out += ' ';
  if (!ns.empty()) out += plain_or_quoted(ns) + "/";
  return out + plain_or_quoted(name);
}

std::string printable(std::string_view text, size_t most) {
  constexpr std::string_view kMore = "...";
  const bool cut = text.size() > most;
  std::string out(text.substr(0, cut ? most - kMore.size() : most));
  std::ranges::replace_if(out, [](char c) { return c >= '\t' && c <= '\r'; }, ' ');
  std::ranges::replace_if(out, [](char c) { return c < 0x20 || c >= 0x7f; }, '?');
  if (cut) out += kMore;
  return out;
}

Status completed(Status status, int http_status) {
  status.retry_after_s = std::max(status.retry_after_s, 0);
  if (status.code <= 0) status.code = http_status;
  if (status.code == 0) status.code = code_of(status.reason);
  if (status.reason.empty()) status.reason = reason_of(status.code);
  if (status.message.empty()) {
    status.message = status.reason.empty() ? "no reason given" : status.reason;
  }
  // Servers before 1.19 do not name the cause.
  if (status.message.contains("Too large resource version")) {
    status.resource_version_too_large = true;
  }
  return status;
}

}  // namespace source::api
