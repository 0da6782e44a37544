#include "source/api/cache.h"

#include <utility>

namespace source::api {

namespace {

std::string key_of(const Item& item) { return item.ns + "/" + item.name; }

bool is_usable(const Item& item) { return !std::holds_alternative<std::monostate>(item.object); }

std::string service_of(const Item& item) {
  const auto* slice = std::get_if<std::shared_ptr<const model::EndpointSlice>>(&item.object);
  return slice == nullptr ? std::string() : (*slice)->service.name;
}

// REQUIRES: is_usable.
model::Change change_to(Item item) {
  return std::visit(
      []<typename T>(T& object) -> model::Change {
        if constexpr (std::is_same_v<T, std::monostate>) {
          std::unreachable();
        } else {
          return std::move(object);
        }
      },
      item.object);
}

}  // namespace

void Cache::apply(Event event, std::vector<model::Change>& out) {
  if (event.type == EventType::Bookmark || event.type == EventType::Error) return;
  if (event.type == EventType::Deleted) event.item.object = {};
  put(std::move(event.item), out);
}

void Cache::replace(std::vector<Item> items, std::vector<model::Change>& out) {
  ++lists_;
  out.reserve(out.size() + items.size());
  for (Item& item : items)
    put(std::move(item), out);
  boost::unordered::erase_if(known_, [&](const auto& entry) {
    if (entry.second.list == lists_) return false;
    out.push_back(gone(entry.first, entry.second));
    return true;
  });
}

void Cache::put(Item item, std::vector<model::Change>& out) {
  std::string key = key_of(item);
  const auto before = known_.find(key);
  if (!is_usable(item)) {
    if (before == known_.end()) return;
    out.push_back(gone(before->first, before->second));
    known_.erase(before);
    return;
  }
  Known now{service_of(item), lists_};
  if (before == known_.end()) {
    known_.emplace(std::move(key), std::move(now));
  } else {
    if (before->second.service != now.service) out.push_back(gone(key, before->second));
    before->second = std::move(now);
  }
  out.push_back(change_to(std::move(item)));
}

model::Change Cache::gone(std::string_view key, const Known& known) const {
  const size_t slash = key.find('/');
  std::string ns(key.substr(0, slash));
  std::string name(key.substr(slash + 1));
  switch (resource_) {
    case Resource::Services:
      return model::ServiceDeleted{{std::move(ns), std::move(name)}};
    case Resource::EndpointSlices:
      return model::SliceDeleted{{{std::move(ns), known.service}, std::move(name)}};
    case Resource::ServiceCidrs:
      return model::ServiceCidrDeleted{std::move(name)};
    case Resource::Nodes:
      return model::NodeDeleted{std::move(name)};
  }
  std::unreachable();
}

}  // namespace source::api
