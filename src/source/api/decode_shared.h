// What both encodings share: what the resources are called, and what is checked around an object.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "source/api/wire.h"

namespace source::api {

struct Kind {
  std::string_view api_version;
  std::string_view name;
  bool namespaced = false;
  bool label_name = false;  // named by a DNS label, others by a DNS subdomain
};

const Kind& kind_of(Resource resource);

inline constexpr Kind kStatusKind{.api_version = "v1", .name = "Status"};
inline constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";
inline constexpr std::string_view kTooLargeCause = "ResourceVersionTooLarge";

// An error if what came is something else: "expected ServiceList, got Pod".
base::Result<> expect_object(const Kind& expected, std::string_view api_version,
                             std::string_view kind);
base::Result<> expect_list(const Kind& expected, std::string_view api_version,
                           std::string_view kind);

base::Result<EventType> event_type(std::string_view name);

// A version goes into URLs: short and printable, or an error. Empty is fine.
base::Result<> check_version(std::string_view resource_version);

// The same for the token of the next page.
base::Result<> check_token(std::string_view continue_token);

// "Service default/web", for messages.
std::string describe(const Kind& kind, std::string_view ns, std::string_view name);

// At most `most` bytes of printable ASCII, for messages: anything else is a '?', white space a ' '.
std::string printable(std::string_view text, size_t most);

// Fills in what the server left out, each from the others: code, reason and message. Negative numbers
// become 0. `http_status` is 0 if there was none of its own.
Status completed(Status status, int http_status = 0);

}  // namespace source::api
