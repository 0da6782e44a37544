#include "source/api/decode_proto.h"

#include <utility>

#include "base/text.h"
#include "source/api/decode_message.h"
#include "source/api/decode_object.h"
#include "source/api/decode_shared.h"

namespace source::api::proto {

namespace {

constexpr std::string_view kMagic("k8s\0", 4);
constexpr size_t kMaxMessage = 1000;
constexpr size_t kMaxReason = 64;

// runtime.Unknown{1: TypeMeta{1: apiVersion, 2: kind}, 2: raw, 3: contentEncoding, 4: contentType}
struct Envelope {
  std::string_view api_version;
  std::string_view kind;
  std::string_view raw;
};

base::Result<Envelope> open_envelope(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    return base::fail(base::ErrorCode::Invalid, "not protobuf of Kubernetes: it begins with " +
                                                    base::quote(printable(bytes.substr(0, 8), 8)));
  }
  bytes.remove_prefix(kMagic.size());
  const std::string_view content_encoding = first_field(bytes, 3);
  if (!content_encoding.empty()) {
    return base::fail(base::ErrorCode::Invalid, "unknown encoding of an object: " +
                                                    base::quote(printable(content_encoding, 40)));
  }
  // Not the same as an empty object: the server always writes it, so these are not all of its bytes.
  if (count_fields(bytes, 2) == 0) {
    return base::fail(base::ErrorCode::Invalid, "an envelope without an object");
  }
  const std::string_view type_meta = first_field(bytes, 1);
  return Envelope{first_field(type_meta, 1), first_field(type_meta, 2), first_field(bytes, 2)};
}

// Broken bytes become an error here, at the edge.
template <typename Decode>
auto guarded(Decode decode) -> decltype(decode()) {
  try {
    return decode();
  } catch (const protozero::exception& error) {
    return base::fail(base::ErrorCode::Invalid, std::string("broken protobuf: ") + error.what());
  }
}

Item::Object decode_object(Resource resource, std::string_view message, const Meta& meta,
                           const Item& item, const Place& root) {
  switch (resource) {
    case Resource::Services:
      return decode_service(message, meta, {item.ns, item.name}, root);
    case Resource::EndpointSlices:
      if (auto slice = decode_slice(message, meta, {item.ns, item.name}, root)) return slice;
      return {};
    case Resource::ServiceCidrs:
      return decode_service_cidr(message, item.name, root);
    case Resource::Nodes:
      return decode_node(message, meta, item.name, root);
  }
  return {};
}

bool names_are_usable(const Kind& kind, const Item& item, const Place& root) {
  const Place metadata = root["metadata"];
  const Place name = metadata["name"];
  const Place ns = metadata["namespace"];
  const bool good_name =
      (kind.label_name ? dns_label(name, item.name) : dns_subdomain(name, item.name)).has_value();
  return good_name && (!kind.namespaced || dns_label(ns, item.ns));
}

// What identifies the object, for an event that takes it away.
base::Result<Item> decode_identity(const Kind& kind, const Meta& meta) {
  if (meta.name.empty()) {
    return base::fail(base::ErrorCode::Invalid, std::string(kind.name) + " without a name");
  }
  TRY(check_version(meta.resource_version));
  Item item;
  if (kind.namespaced) item.ns = meta.ns.empty() ? "default" : meta.ns;
  item.name = meta.name;
  item.resource_version = meta.resource_version;
  return item;
}

base::Result<Item> decode_item(Resource resource, std::string_view message) {
  const Kind& kind = kind_of(resource);
  const Meta meta = read_meta(message);
  Item item = TRY(decode_identity(kind, meta));
  Complaint complaint;
  const Place root(complaint);
  if (names_are_usable(kind, item, root)) {
    item.object = decode_object(resource, message, meta, item, root);
  }
  if (complaint.fatal()) item.object = {};
  if (!complaint.text().empty()) {
    item.problem = describe(kind, meta.ns, meta.name) + ": " + complaint.text();
  }
  return item;
}

// metav1.Status{3: message, 4: reason, 5: StatusDetails{4: StatusCause{1: reason}, 5: retryAfterSeconds}, 6: code}
Status read_status(std::string_view message) {
  Status status;
  MessageReader reader(message);
  std::string_view details;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case bytes_field(3):
        status.message = printable(reader.get_view(), kMaxMessage);
        break;
      case bytes_field(4):
        status.reason = printable(reader.get_view(), kMaxReason);
        break;
      case bytes_field(5):
        details = reader.get_view();
        break;
      case number_field(6):
        status.code = reader.get_int32();
        break;
      default:
        reader.skip();
    }
  }
  each_field(details, 4, [&](std::string_view cause) {
    if (first_field(cause, 1) == kTooLargeCause) status.resource_version_too_large = true;
  });
  MessageReader rest(details);
  if (rest.next(5, protozero::pbf_wire_type::varint)) status.retry_after_s = rest.get_int32();
  return status;
}

base::Result<Event> decode_event_of(Resource resource, EventType type, std::string_view object) {
  const Envelope envelope = TRY(open_envelope(object));
  Event event{.type = type};
  const Kind& kind = kind_of(resource);
  const Kind& expected = type == EventType::Error ? kStatusKind : kind;
  TRY(expect_object(expected, envelope.api_version, envelope.kind));
  if (type == EventType::Error) {
    event.status = completed(read_status(envelope.raw));
  } else if (type == EventType::Bookmark) {
    const Meta meta = read_meta(envelope.raw);
    TRY(check_version(meta.resource_version));
    event.item.resource_version = meta.resource_version;
    event.initial_events_end = meta.annotation(kInitialEventsEnd) == "true";
  } else if (type == EventType::Deleted) {
    event.item = TRY(decode_identity(kind, read_meta(envelope.raw)));
  } else {
    event.item = TRY(decode_item(resource, envelope.raw));
  }
  return event;
}

}  // namespace

// {1: ListMeta{2: resourceVersion, 3: continue}, 2: items}
base::Result<ListPage> decode_list(Resource resource, std::string_view body) {
  return guarded([&]() -> base::Result<ListPage> {
    const Envelope envelope = TRY(open_envelope(body));
    TRY(expect_list(kind_of(resource), envelope.api_version, envelope.kind));
    const std::string_view meta = first_field(envelope.raw, 1);
    ListPage page;
    page.resource_version = first_field(meta, 2);
    page.continue_token = first_field(meta, 3);
    TRY(check_version(page.resource_version));
    TRY(check_token(page.continue_token));
    MessageReader reader(envelope.raw);
    while (reader.next(2, protozero::pbf_wire_type::length_delimited))
      page.items.push_back(TRY(decode_item(resource, reader.get_view())));
    return page;
  });
}

// metav1.WatchEvent{1: type, 2: RawExtension{1: raw}}
base::Result<Event> decode_event(Resource resource, std::string_view frame) {
  return guarded([&]() -> base::Result<Event> {
    const EventType type = TRY(event_type(first_field(frame, 1)));
    return decode_event_of(resource, type, first_field(first_field(frame, 2), 1));
  });
}

base::Result<Status> decode_status(std::string_view body) {
  return guarded([&]() -> base::Result<Status> {
    const Envelope envelope = TRY(open_envelope(body));
    TRY(expect_object(kStatusKind, envelope.api_version, envelope.kind));
    return read_status(envelope.raw);
  });
}

}  // namespace source::api::proto
