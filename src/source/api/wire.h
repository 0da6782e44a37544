// From the bytes of an API server to events: protobuf frames or JSON lines, and lists in both.
//
// Objects are decoded straight into the model: only the fields that we read, each checked as those of a
// manifest are, since they end up in rules. Whatever the bytes are, memory stays bounded and nothing is
// half decoded. Pure; a reader belongs to one stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/objects.h"
#include "source/api/decode_cut.h"

namespace source::api {

enum class Resource : uint8_t { Services, EndpointSlices, ServiceCidrs, Nodes };
inline constexpr size_t kResources = 4;

enum class Encoding : uint8_t { Protobuf, Json };

// From a Content-Type header ("application/vnd.kubernetes.protobuf;stream=watch"); anything else than the
// two is an error that names what was sent.
base::Result<Encoding> encoding_of(std::string_view content_type);

// One object, as far as it concerns us.
struct Item {
  std::string ns;  // empty for Nodes and ServiceCidrs
  std::string name;
  std::string resource_version;  // short and printable, as it goes into URLs
  // Monostate: the object is there, but not for us (an FQDN slice, a slice without a Service, or one that is
  // broken). `problem` may say why, or what of a usable object is ignored, in a line for the log:
  // "Service default/web: spec.externalIPs[0]: Skipping invalid IP \"x\"".
  using Object =
      std::variant<std::monostate, std::shared_ptr<const model::Service>,
                   std::shared_ptr<const model::EndpointSlice>, std::shared_ptr<const model::Node>,
                   std::shared_ptr<const model::ServiceCidr>>;
  Object object;
  std::string problem;
};

// metav1.Status: how the server says no.
struct Status {
  int code = 0;
  std::string reason;  // "Expired", "TooManyRequests", ...
  std::string message;
  int retry_after_s = 0;                    // 0 = none
  bool resource_version_too_large = false;  // "Too large resource version", by its cause
};

enum class EventType : uint8_t { Added, Modified, Deleted, Bookmark, Error };

struct Event {
  EventType type = EventType::Added;
  Item item;                        // of a Bookmark only the version counts, of a Deleted no object
  bool initial_events_end = false;  // of a Bookmark
  Status status;                    // of an Error
};

struct ListPage {
  std::vector<Item> items;
  std::string resource_version;
  std::string continue_token;
};

// All of the page, or an error that says what is wrong with the bytes.
base::Result<ListPage> decode_list(Resource resource, Encoding encoding, std::string_view body);

// The Status in the body of a failed answer, in either encoding, or made up from the HTTP status and the
// start of the body (HTML of some proxy in between), printable and short.
Status decode_status(int http_status, std::string_view content_type, std::string_view body);

// Cuts the body of a watch into events.
class EventReader {
 public:
  static constexpr size_t kMaxEventBytes = size_t{16} << 20;

  EventReader(Resource resource, Encoding encoding, size_t max_event_bytes = kMaxEventBytes)
      : resource_(resource), encoding_(encoding), max_event_bytes_(max_event_bytes) {}

  // Takes the next bytes, however they are cut, and calls `visit` for each event that is complete.
  // After an error (garbage, an event too large, an object without a name) the stream is of no more use.
  // REQUIRES: `visit` does not destroy the reader.
  base::Result<> feed(std::string_view bytes, const std::function<void(Event)>& visit);

  // The stream has ended: an error if that was in the middle of an event.
  base::Result<> finish() const;

 private:
  // The next whole event, taken off the start of `bytes`; it may point there or into pending_. Nullopt if
  // it is not complete: its beginning is then in pending_.
  base::Result<std::optional<std::string_view>> take_frame(std::string_view& bytes);
  base::Result<std::optional<std::string_view>> take_json(std::string_view& bytes);

  // Moves bytes to pending_ until that has `size` of them; false if there are not enough.
  bool gather(size_t size, std::string_view& bytes);
  base::Result<size_t> frame_length(std::string_view frame) const;
  base::Result<> check_size(size_t bytes) const;
  void forget_pending();

  Resource resource_;
  Encoding encoding_;
  size_t max_event_bytes_;
  std::string pending_;  // the beginning of an event that was cut
  ValueEnd json_end_;    // of the event that is pending
};

}  // namespace source::api
