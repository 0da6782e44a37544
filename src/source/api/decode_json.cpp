#include "source/api/decode_json.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "codec/json.h"
#include "source/api/decode_cut.h"
#include "source/api/decode_shared.h"
#include "source/decode.h"

namespace source::api::json {

namespace {

// Far more than the 1.5 MB that etcd takes for an object can hold.
constexpr codec::Limits kLimits{.nodes = 1'000'000, .depth = 200};
constexpr size_t kMaxMessage = 1000;
constexpr size_t kMaxReason = 64;

std::unexpected<base::Error> invalid(std::string text) {
  return base::fail(base::ErrorCode::Invalid, std::move(text));
}

// An error may quote what stands in the text.
base::Result<codec::Value> parse(std::string_view text) {
  auto value = codec::json::parse(text, kLimits);
  if (!value) return invalid("broken JSON: " + printable(value.error().text, kMaxMessage));
  return value;
}

// Empty if it is absent, or no text: whoever needs it complains about that.
std::string_view text_of(const codec::Value& object, std::string_view name) {
  const codec::Value* value = object.find(name);
  const std::string* text = value == nullptr ? nullptr : value->as_string();
  return text == nullptr ? std::string_view{} : *text;
}

int number_of(const codec::Value& object, std::string_view name) {
  const codec::Value* value = object.find(name);
  const int64_t* number = value == nullptr ? nullptr : value->as_int();
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return number == nullptr ? 0 : static_cast<int>(std::clamp<int64_t>(*number, 0, kMost));
}

// Null members and those of another kind are as absent.
const codec::Value& object_in(const codec::Value& object, std::string_view name) {
  static const codec::Value kNothing{codec::Value::Object{}};
  const codec::Value* value = object.find(name);
  return value == nullptr || value->as_object() == nullptr ? kNothing : *value;
}

// What identifies the object, for an event that takes it away.
base::Result<Item> decode_identity(const Kind& kind, const codec::Value& object) {
  const codec::Value& metadata = object_in(object, "metadata");
  const auto name = text_of(metadata, "name");
  const auto ns = text_of(metadata, "namespace");
  const auto version = text_of(metadata, "resourceVersion");
  if (name.empty()) return invalid(std::string(kind.name) + " without a name");
  TRY(check_version(version));
  Item item;
  if (kind.namespaced) item.ns = ns.empty() ? "default" : ns;
  item.name = name;
  item.resource_version = version;
  return item;
}

Item::Object first_object(Decoded& decoded) {
  if (decoded.objects.empty()) return {};
  return std::visit(
      []<typename T>(T& object) -> Item::Object {
        if constexpr (std::is_same_v<T, Endpoints>) {
          return {};
        } else {
          return std::move(object);
        }
      },
      decoded.objects.front().any);
}

// The first fatal problem, or else the first other one, in one line.
std::string first_problem(const std::vector<Problem>& problems) {
  if (problems.empty()) return {};
  const auto fatal = std::ranges::find(problems, true, &Problem::fatal);
  const Problem& problem = fatal == problems.end() ? problems.front() : *fatal;
  std::string out;
  if (!problem.object.empty()) out += problem.object + ": ";
  if (!problem.field.empty()) out += problem.field + ": ";
  return out + problem.text;
}

// REQUIRES: apiVersion and kind are in the object.
base::Result<Item> decode_item(const Kind& kind, const codec::Value& object) {
  Item item = TRY(decode_identity(kind, object));
  Decoded decoded;
  source::decode(object, decoded);
  item.object = first_object(decoded);
  item.problem = first_problem(decoded.problems);
  return item;
}

base::Result<> expect(const Kind& kind, const codec::Value& object) {
  return expect_object(kind, text_of(object, "apiVersion"), text_of(object, "kind"));
}

// Elements of a list come without apiVersion and kind: the list has said it.
base::Result<codec::Value> parse_element(const Kind& kind, std::string_view text) {
  codec::Value object = TRY(parse(text));
  auto* members = object.as_object();
  if (members == nullptr) return invalid("expected " + std::string(kind.name) + ", got no object");
  for (const auto& [name, value] :
       {std::pair("apiVersion", kind.api_version), {"kind", kind.name}}) {
    if (object.find(name) == nullptr) {
      members->push_back({name, {}, codec::Value(std::string(value))});
    }
  }
  TRY(expect(kind, object));
  return object;
}

Status read_status(const codec::Value& object) {
  const codec::Value& details = object_in(object, "details");
  Status status;
  status.code = number_of(object, "code");
  status.reason = printable(text_of(object, "reason"), kMaxReason);
  status.message = printable(text_of(object, "message"), kMaxMessage);
  status.retry_after_s = number_of(details, "retryAfterSeconds");
  const codec::Value* causes = details.find("causes");
  if (causes == nullptr || causes->as_array() == nullptr) return status;
  status.resource_version_too_large = std::ranges::any_of(
      *causes->as_array(),
      [](const codec::Value& cause) { return text_of(cause, "reason") == kTooLargeCause; });
  return status;
}

bool ends_initial_events(const codec::Value& metadata) {
  return text_of(object_in(metadata, "annotations"), kInitialEventsEnd) == "true";
}

base::Result<Event> decode_event_of(Resource resource, EventType type, const codec::Value& object) {
  Event event{.type = type};
  const Kind& kind = kind_of(resource);
  TRY(expect(type == EventType::Error ? kStatusKind : kind, object));
  if (type == EventType::Error) {
    event.status = completed(read_status(object));
  } else if (type == EventType::Bookmark) {
    const codec::Value& metadata = object_in(object, "metadata");
    event.item.resource_version = text_of(metadata, "resourceVersion");
    TRY(check_version(event.item.resource_version));
    event.initial_events_end = ends_initial_events(metadata);
  } else if (type == EventType::Deleted) {
    event.item = TRY(decode_identity(kind, object));
  } else {
    event.item = TRY(decode_item(kind, object));
  }
  return event;
}

// The members of a list, as text.
struct ListTexts {
  std::string_view api_version = R"("")";
  std::string_view kind = R"("")";
  std::string_view metadata = "{}";
  std::string_view items = "[]";
};

base::Result<ListTexts> cut_list(std::string_view body) {
  ListTexts texts;
  TRY(each_member(body, [&](std::string_view name, std::string_view value) -> base::Result<> {
    if (name == R"("apiVersion")") texts.api_version = value;
    if (name == R"("kind")") texts.kind = value;
    if (name == R"("metadata")") texts.metadata = value;
    if (name == R"("items")" && value != "null") texts.items = value;
    return {};
  }));
  return texts;
}

}  // namespace

base::Result<ListPage> decode_list(Resource resource, std::string_view body) {
  const Kind& kind = kind_of(resource);
  const ListTexts texts = TRY(cut_list(body));
  const codec::Value api_version = TRY(parse(texts.api_version));
  const codec::Value kind_name = TRY(parse(texts.kind));
  const codec::Value metadata = TRY(parse(texts.metadata));
  const auto text = [](const codec::Value& value) -> std::string_view {
    return value.as_string() == nullptr ? std::string_view{} : *value.as_string();
  };
  TRY(expect_list(kind, text(api_version), text(kind_name)));
  ListPage page;
  page.resource_version = text_of(metadata, "resourceVersion");
  page.continue_token = text_of(metadata, "continue");
  TRY(check_version(page.resource_version));
  TRY(check_token(page.continue_token));
  const auto taken = each_element(texts.items, [&](std::string_view element) -> base::Result<> {
    const codec::Value object = TRY(parse_element(kind, element));
    page.items.push_back(TRY(decode_item(kind, object)));
    return {};
  });
  if (!taken) return std::unexpected(taken.error());
  return page;
}

base::Result<Event> decode_event(Resource resource, std::string_view text) {
  const codec::Value event = TRY(parse(text));
  const EventType type = TRY(event_type(text_of(event, "type")));
  return decode_event_of(resource, type, object_in(event, "object"));
}

base::Result<Status> decode_status(std::string_view body) {
  const codec::Value object = TRY(parse(body));
  TRY(expect(kStatusKind, object));
  return read_status(object);
}

}  // namespace source::api::json
