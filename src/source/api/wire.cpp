#include "source/api/wire.h"

#include <algorithm>

#include "base/text.h"
#include "source/api/decode_json.h"
#include "source/api/decode_proto.h"
#include "source/api/decode_shared.h"

namespace source::api {

namespace {

constexpr size_t kLengthBytes = 4;
// A burst of large events does not keep its memory afterwards.
constexpr size_t kKeptBytes = size_t{64} << 10;

base::Result<Event> decode_event(Resource resource, Encoding encoding, std::string_view bytes) {
  return encoding == Encoding::Protobuf ? proto::decode_event(resource, bytes)
                                        : json::decode_event(resource, bytes);
}

// "application/json" of "Application/JSON; charset=utf-8"
std::string media_type(std::string_view content_type) {
  return base::lower(base::trim(content_type.substr(0, content_type.find(';'))));
}

}  // namespace

base::Result<Encoding> encoding_of(std::string_view content_type) {
  const std::string type = media_type(content_type);
  if (type == "application/vnd.kubernetes.protobuf") return Encoding::Protobuf;
  if (type == "application/json") return Encoding::Json;
  return base::fail(base::ErrorCode::Invalid,
                    "expected protobuf or JSON of Kubernetes, got " +
                        (type.empty() ? "no content type" : base::quote(printable(type, 80))));
}

base::Result<ListPage> decode_list(Resource resource, Encoding encoding, std::string_view body) {
  return encoding == Encoding::Protobuf ? proto::decode_list(resource, body)
                                        : json::decode_list(resource, body);
}

base::Result<> EventReader::feed(std::string_view bytes, const std::function<void(Event)>& visit) {
  while (!bytes.empty()) {
    const auto event = TRY(encoding_ == Encoding::Protobuf ? take_frame(bytes) : take_json(bytes));
    if (!event) break;
    visit(TRY(decode_event(resource_, encoding_, *event)));
    forget_pending();
  }
  return {};
}

base::Result<> EventReader::finish() const {
  if (pending_.empty()) return {};
  return base::fail(base::ErrorCode::Invalid, "the stream ended in the middle of an event");
}

base::Result<std::optional<std::string_view>> EventReader::take_frame(std::string_view& bytes) {
  if (pending_.empty() && bytes.size() >= kLengthBytes) {
    const size_t end = kLengthBytes + TRY(frame_length(bytes));
    if (bytes.size() >= end) {
      const auto frame = bytes.substr(kLengthBytes, end - kLengthBytes);
      bytes.remove_prefix(end);
      return frame;
    }
  }
  if (!gather(kLengthBytes, bytes)) return std::nullopt;
  if (!gather(kLengthBytes + TRY(frame_length(pending_)), bytes)) return std::nullopt;
  return std::string_view(pending_).substr(kLengthBytes);
}

base::Result<std::optional<std::string_view>> EventReader::take_json(std::string_view& bytes) {
  if (!json_end_.inside()) {
    bytes.remove_prefix(std::min(bytes.find_first_not_of(kJsonSpace), bytes.size()));
    if (bytes.empty()) return std::nullopt;
    if (bytes[0] != '{') {
      return base::fail(
          base::ErrorCode::Invalid,
          "expected an event in JSON, got " + base::quote(printable(bytes.substr(0, 1), 1)));
    }
  }
  const size_t end = json_end_.scan(bytes);
  const auto piece = bytes.substr(0, end);
  TRY(check_size(pending_.size() + piece.size()));
  bytes.remove_prefix(piece.size());
  if (end != std::string_view::npos && pending_.empty()) return piece;
  pending_ += piece;
  if (end == std::string_view::npos) return std::nullopt;
  return pending_;
}

bool EventReader::gather(size_t size, std::string_view& bytes) {
  const size_t missing = size - std::min(size, pending_.size());
  const auto piece = bytes.substr(0, missing);
  pending_ += piece;
  bytes.remove_prefix(piece.size());
  return piece.size() == missing;
}

// REQUIRES: the four bytes of the length, highest first, are there.
base::Result<size_t> EventReader::frame_length(std::string_view frame) const {
  size_t length = 0;
  for (const char c : frame.substr(0, kLengthBytes))
    length = length << 8 | static_cast<unsigned char>(c);
  TRY(check_size(length));
  return length;
}

base::Result<> EventReader::check_size(size_t bytes) const {
  if (bytes <= max_event_bytes_) return {};
  return base::fail(base::ErrorCode::Invalid,
                    "an event of more than " + std::to_string(max_event_bytes_) + " bytes");
}

void EventReader::forget_pending() {
  if (pending_.capacity() > kKeptBytes) {
    std::string().swap(pending_);
  } else {
    pending_.clear();
  }
}

}  // namespace source::api
