#include "kube/events_wire.h"

#include <time.h>

#include <array>
#include <charconv>
#include <cstdio>

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "base/check.h"
#include "codec/json.h"

namespace kube {
namespace {

using codec::Value;
using protozero::pbf_writer;
using std::chrono::system_clock;

constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";
constexpr std::string_view kMagic{"k8s\0", 4};

std::string_view name(Event::Type type) {
  return type == Event::Type::Normal ? "Normal" : "Warning";
}

std::chrono::microseconds micros(system_clock::time_point time) {
  return std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch());
}

// MicroTime: "2026-11-16T02:30:19.123456Z".
std::string micro_time(system_clock::time_point time) {
  const int64_t all = micros(time).count();
  const time_t seconds = all / 1'000'000;
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  char date[32];
  ::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, ".%06dZ", static_cast<int>(all % 1'000'000));
  return std::string(date) + fraction;
}

// Field numbers below are those of generated.proto in k8s.io/api (events/v1, core/v1) and
// k8s.io/apimachinery (meta/v1, runtime).

void add_micro_time(pbf_writer& parent, protozero::pbf_tag_type tag,
                    system_clock::time_point time) {
  const int64_t all = micros(time).count();
  pbf_writer timestamp(parent, tag);
  timestamp.add_int64(1, all / 1'000'000);
  timestamp.add_int32(2, static_cast<int32_t>(all % 1'000'000 * 1000));
}

void add_metadata(pbf_writer& parent, const EventObject& object) {
  pbf_writer metadata(parent, 1);
  metadata.add_string(1, object.name);
  metadata.add_string(3, object.ns);
}

void add_series(pbf_writer& parent, const EventSeries& series) {
  pbf_writer message(parent, 3);
  message.add_int32(1, series.count);
  add_micro_time(message, 2, series.last_observed);
}

void add_regarding(pbf_writer& parent, const Event::Regarding& regarding) {
  pbf_writer reference(parent, 8);
  reference.add_string(1, regarding.kind);
  reference.add_string(2, regarding.ns);
  reference.add_string(3, regarding.name);
  reference.add_string(5, regarding.api_version);
}

std::string proto_event(const EventObject& object) {
  std::string bytes;
  pbf_writer event(bytes);
  add_metadata(event, object);
  add_micro_time(event, 2, object.time);
  if (object.series) add_series(event, *object.series);
  event.add_string(4, "kube-proxy");
  event.add_string(5, object.reporting_instance);
  event.add_string(6, object.event.action);
  event.add_string(7, object.event.reason);
  add_regarding(event, object.event.regarding);
  event.add_string(10, object.event.note);
  const std::string_view type = name(object.event.type);
  event.add_string(11, type.data(), type.size());
  return bytes;
}

// The envelope of every protobuf object: runtime.Unknown behind four bytes of magic.
std::string proto_body(const EventObject& object) {
  std::string bytes(kMagic);
  pbf_writer unknown(bytes);
  {
    pbf_writer type(unknown, 1);
    type.add_string(1, "events.k8s.io/v1");
    type.add_string(2, "Event");
  }
  unknown.add_bytes(2, proto_event(object));
  return bytes;
}

Value text(std::string_view value) { return Value(std::string(value)); }

Value json_series(const EventSeries& series) {
  return Value(Value::Object{{"count", {}, Value(int64_t{series.count})},
                             {"lastObservedTime", {}, text(micro_time(series.last_observed))}});
}

Value json_regarding(const Event::Regarding& regarding) {
  Value::Object members{{"kind", {}, text(regarding.kind)}};
  if (!regarding.ns.empty()) members.push_back({"namespace", {}, text(regarding.ns)});
  members.push_back({"name", {}, text(regarding.name)});
  members.push_back({"apiVersion", {}, text(regarding.api_version)});
  return Value(std::move(members));
}

std::string json_body(const EventObject& object) {
  const Event& event = object.event;
  Value::Object metadata{{"name", {}, text(object.name)}, {"namespace", {}, text(object.ns)}};
  Value::Object members{{"kind", {}, text("Event")},
                        {"apiVersion", {}, text("events.k8s.io/v1")},
                        {"metadata", {}, Value(std::move(metadata))},
                        {"eventTime", {}, text(micro_time(object.time))}};
  if (object.series) members.push_back({"series", {}, json_series(*object.series)});
  members.push_back({"reportingController", {}, text("kube-proxy")});
  members.push_back({"reportingInstance", {}, text(object.reporting_instance)});
  members.push_back({"action", {}, text(event.action)});
  members.push_back({"reason", {}, text(event.reason)});
  members.push_back({"regarding", {}, json_regarding(event.regarding)});
  if (!event.note.empty()) members.push_back({"note", {}, text(event.note)});
  members.push_back({"type", {}, text(name(event.type))});
  std::string out;
  codec::json::append(out, Value(std::move(members)));
  return out;
}

std::string collection(const EventObject& object) {
  return "/apis/events.k8s.io/v1/namespaces/" + object.ns + "/events";
}

// The message of a Status in its envelope; empty if there is none.
std::string proto_status_message(std::string_view body) {
  using protozero::pbf_wire_type;
  if (!body.starts_with(kMagic)) return "";
  body.remove_prefix(kMagic.size());
  try {
    protozero::pbf_reader unknown(body.data(), body.size());
    while (unknown.next(2, pbf_wire_type::length_delimited)) {
      protozero::pbf_reader status(unknown.get_view());
      if (status.next(3, pbf_wire_type::length_delimited)) return status.get_string();
    }
  } catch (const protozero::exception&) {
    return "";
  }
  return "";
}

std::string json_status_message(std::string_view body) {
  const auto status = codec::json::parse(body);
  const Value* message = status ? status->find("message") : nullptr;
  const std::string* found = message != nullptr ? message->as_string() : nullptr;
  return found != nullptr ? *found : "";
}

}  // namespace

EventObject make_event_object(Event event, const std::string& host, system_clock::time_point now) {
  const std::chrono::nanoseconds since = now.time_since_epoch();
  char hex[24];
  const auto end = std::to_chars(hex, hex + sizeof hex, since.count(), 16).ptr;
  EventObject object;
  object.ns = event.regarding.ns.empty() ? "default" : event.regarding.ns;
  object.name = event.regarding.name + "." + std::string(hex, end);
  object.time = now;
  object.reporting_instance = "kube-proxy-" + host;
  object.event = std::move(event);
  return object;
}

Request create_request(const EventObject& object, std::string_view content_type) {
  const bool proto = content_type.find(kProtobuf) != std::string_view::npos;
  return {.method = "POST",
          .path = collection(object),
          .content_type = std::string(proto ? kProtobuf : "application/json"),
          .body = proto ? proto_body(object) : json_body(object)};
}

Request patch_request(const EventObject& object) {
  CHECK(object.series);
  std::string body;
  codec::json::append(body, Value(Value::Object{{"series", {}, json_series(*object.series)}}));
  return {.method = "PATCH",
          .path = collection(object) + "/" + object.name,
          .content_type = "application/strategic-merge-patch+json",
          .body = std::move(body)};
}

std::string refusal_text(const Response& response) {
  std::string message = response.body.starts_with(kMagic) ? proto_status_message(response.body)
                                                          : json_status_message(response.body);
  constexpr size_t kMaxText = 1000;
  if (!message.empty()) return message.substr(0, kMaxText);
  return "the server answered with status " + std::to_string(response.status);
}

}  // namespace kube
