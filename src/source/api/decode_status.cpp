// What a failed answer says.

#include <algorithm>
#include <array>

#include "base/text.h"
#include "source/api/decode_json.h"
#include "source/api/decode_proto.h"
#include "source/api/decode_shared.h"

namespace source::api {

namespace {

constexpr size_t kMaxType = 40;
constexpr size_t kMaxBody = 100;

struct Phrase {
  int code;
  std::string_view text;
};

constexpr std::array kPhrases{
    Phrase{400, "Bad Request"},
    Phrase{401, "Unauthorized"},
    Phrase{403, "Forbidden"},
    Phrase{404, "Not Found"},
    Phrase{405, "Method Not Allowed"},
    Phrase{406, "Not Acceptable"},
    Phrase{407, "Proxy Authentication Required"},
    Phrase{408, "Request Timeout"},
    Phrase{410, "Gone"},
    Phrase{413, "Content Too Large"},
    Phrase{415, "Unsupported Media Type"},
    Phrase{421, "Misdirected Request"},
    Phrase{429, "Too Many Requests"},
    Phrase{500, "Internal Server Error"},
    Phrase{501, "Not Implemented"},
    Phrase{502, "Bad Gateway"},
    Phrase{503, "Service Unavailable"},
    Phrase{504, "Gateway Timeout"},
};

// "the server answered 502 Bad Gateway with text/html: \"<html>...\""
std::string foreign_message(int http_status, std::string_view content_type, std::string_view body) {
  std::string out = "the server answered " + std::to_string(http_status);
  const auto* phrase = std::ranges::find(kPhrases, http_status, &Phrase::code);
  if (phrase != kPhrases.end()) out += " " + std::string(phrase->text);
  const auto text = base::trim(body);
  if (text.empty()) return out;
  const auto type = base::trim(content_type.substr(0, content_type.find(';')));
  if (!type.empty()) out += " with " + printable(type, kMaxType);
  return out + ": " + base::quote(printable(text, kMaxBody));
}

base::Result<Status> status_in(std::string_view content_type, std::string_view body) {
  const Encoding encoding = TRY(encoding_of(content_type));
  return encoding == Encoding::Protobuf ? proto::decode_status(body) : json::decode_status(body);
}

}  // namespace

Status decode_status(int http_status, std::string_view content_type, std::string_view body) {
  auto status = status_in(content_type, body).value_or(Status{});
  if (status.message.empty() && status.reason.empty()) {
    status.message = foreign_message(http_status, content_type, body);
  }
  return completed(std::move(status), http_status);
}

}  // namespace source::api
