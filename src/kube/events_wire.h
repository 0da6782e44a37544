// Events as the API server takes them, and what it says when it does not. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kube/events.h"

namespace kube {

struct EventSeries {
  int32_t count = 0;
  std::chrono::system_clock::time_point last_observed;
};

// An event with what makes it an object of the API.
struct EventObject {
  Event event;
  std::string ns;
  std::string name;
  std::chrono::system_clock::time_point time;
  std::string reporting_instance;
  std::optional<EventSeries> series;
};

// Named after its object and the moment: "node-1.18e865a6e5b77040".
EventObject make_event_object(Event event, const std::string& host,
                              std::chrono::system_clock::time_point now);

// POST of the whole event; `content_type` chooses between protobuf and JSON.
Request create_request(const EventObject& object, std::string_view content_type);
// PATCH of its series. REQUIRES: it has one.
Request patch_request(const EventObject& object);

// Why the server refused: the message of its Status, or the code alone.
std::string refusal_text(const Response& response);

}  // namespace kube
