// Any bytes as the answer of an API server, from there to the model.
//
// The first byte says resource and encoding (an ASCII digit: two bits for the one, the next for the other),
// the second in how large pieces the rest comes. No crash; whatever object comes out is safe to write into
// a rule; and the way that the bytes are cut does not change the events.
//
// In the corpus, go-* is what Go's own library wrote (k8s.io/apimachinery v0.36.4, from tests/recordings);
// source/api/decode_test.cpp reads it too.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "model/store.h"
#include "safe_objects.h"
#include "source/api/cache.h"
#include "source/api/test_same.h"
#include "source/api/wire.h"

namespace {

using source::api::Cache;
using source::api::Encoding;
using source::api::Event;
using source::api::EventReader;
using source::api::Item;
using source::api::Resource;

constexpr size_t kMaxEventBytes = 4096;  // small, so that the limit is met

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

void check(const Item& item) {
  CHECK(item.resource_version.size() <= 64 && is_printable(item.resource_version));
  CHECK(item.problem.find('\n') == std::string::npos);
  std::visit(
      []<typename T>(const T& object) {
        if constexpr (!std::is_same_v<T, std::monostate>) fuzz::check_safe(*object);
      },
      item.object);
}

void check(const source::api::Status& status) {
  CHECK(status.code >= 0 && status.retry_after_s >= 0);
  CHECK(!status.message.empty() && status.message.size() <= 1000 && is_printable(status.message));
  CHECK(status.reason.size() <= 64 && is_printable(status.reason));
}

struct Outcome {
  std::vector<Event> events;
  std::string error;
};

Outcome read(Resource resource, Encoding encoding, std::string_view bytes, size_t piece) {
  Outcome out;
  EventReader reader(resource, encoding, kMaxEventBytes);
  while (!bytes.empty()) {
    const auto fed = reader.feed(bytes.substr(0, piece),
                                 [&](Event event) { out.events.push_back(std::move(event)); });
    if (!fed) {
      out.error = fed.error().text;
      return out;
    }
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  if (const auto end = reader.finish(); !end) out.error = end.error().text;
  return out;
}

void fold_all(model::Store& store, std::vector<model::Change>& changes) {
  for (auto& change : changes)
    (void)store.fold(std::move(change));
  changes.clear();
}

// Events and lists, one after the other, and in the end nothing is left.
void fold(Resource resource, const std::vector<Event>& events, const std::vector<Item>& items) {
  model::Store store("node1");
  Cache cache(resource);
  std::vector<model::Change> changes;
  for (const auto& event : events)
    cache.apply(event, changes);
  CHECK(changes.size() <= 2 * events.size());
  fold_all(store, changes);
  cache.replace(items, changes);
  fold_all(store, changes);
  CHECK(cache.size() <= items.size());
  cache.replace({}, changes);
  fold_all(store, changes);
  CHECK(cache.size() == 0);
  CHECK(store.snapshot()->services.size() == 0);
  CHECK(store.snapshot()->service_cidrs.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto resource = static_cast<Resource>(data[0] & 3);
  const auto encoding = (data[0] & 4) == 0 ? Encoding::Protobuf : Encoding::Json;
  const size_t piece = std::max<size_t>(data[1], 1);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);

  const auto whole = read(resource, encoding, bytes, bytes.size());
  const auto cut = read(resource, encoding, bytes, piece);
  CHECK(whole.error == cut.error && is_printable(whole.error));
  CHECK(std::ranges::equal(whole.events, cut.events,
                           [](const Event& a, const Event& b) { return source::api::same(a, b); }));
  for (const auto& event : whole.events) {
    check(event.item);
    if (event.type == source::api::EventType::Error) check(event.status);
  }

  const auto page = source::api::decode_list(resource, encoding, bytes);
  if (page) {
    for (const auto& item : page->items)
      check(item);
  }
  fold(resource, whole.events, page ? page->items : std::vector<Item>{});

  check(source::api::decode_status(
      500,
      encoding == Encoding::Protobuf ? "application/vnd.kubernetes.protobuf" : "application/json",
      bytes));
  check(source::api::decode_status(data[0], bytes, bytes));
  return 0;
}
