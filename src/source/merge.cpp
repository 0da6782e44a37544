#include "source/merge.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace source {

namespace {

using Kind = Key::Kind;

// Endpoints, the largest and rarest of all, on their own: the others become smaller.
struct Pack {
  decltype(Definition::object) operator()(Endpoints& endpoints) const {
    return std::make_unique<Endpoints>(std::move(endpoints));
  }
  decltype(Definition::object) operator()(auto& object) const { return std::move(object); }
};

Definitions::Files definitions_of(Merge::Files files) {
  Definitions::Files out;
  for (auto& [name, objects] : files) {
    auto& definitions = out[name];
    definitions.reserve(objects.size());
    for (Object& object : objects)
      definitions.push_back({std::visit(Pack(), object.any), nullptr, object.at.line});
  }
  return out;
}

void sort_unique(std::vector<Key>& keys) {
  std::ranges::sort(keys);
  const auto rest = std::ranges::unique(keys);
  keys.erase(rest.begin(), rest.end());
}

struct HandedOutKey {
  Key operator()(const ServicePtr* service) const {
    return {Kind::Service, (*service)->key.ns, (*service)->key.name};
  }
  Key operator()(const SlicePtr* slice) const {
    return {Kind::Slice, (*slice)->service.ns, (*slice)->name, (*slice)->service.name};
  }
  Key operator()(const NodePtr* node) const { return {Kind::Node, "", (*node)->name}; }
  Key operator()(const ServiceCidrPtr* cidr) const {
    return {Kind::ServiceCidr, "", (*cidr)->name};
  }
};

struct Deletion {
  model::Change operator()(const ServicePtr* service) const {
    return model::ServiceDeleted{(*service)->key};
  }
  model::Change operator()(const SlicePtr* slice) const {
    return model::SliceDeleted{{(*slice)->service, (*slice)->name}};
  }
  model::Change operator()(const NodePtr* node) const { return model::NodeDeleted{(*node)->name}; }
  model::Change operator()(const ServiceCidrPtr* cidr) const {
    return model::ServiceCidrDeleted{(*cidr)->name};
  }
};

// If both are equal, the first takes the place of the second as well.
struct KeepIfEqual {
  template <typename Ptr>
  bool operator()(Ptr* before, Ptr* after) const {
    if (*before != *after && **before != **after) return false;
    *after = *before;
    return true;
  }
  // REQUIRES: both have the same key.
  bool operator()(auto*, auto*) const { return false; }
};

}  // namespace

bool Merge::SameStory::operator()(const Duplicate& a, const Duplicate& b) const {
  return std::tie(a.object, a.loser_file, a.winner_file) <
         std::tie(b.object, b.loser_file, b.winner_file);
}

Merge::Outcome Merge::update(Files changed) {
  Definitions::Files files = definitions_of(std::move(changed));
  const std::vector<Key> keys = touched(files);
  const View before = look_at(keys);
  definitions_.swap(files, keys);  // the old ones live on in `files`: `before` points there
  const View after = look_at(keys);

  Outcome outcome;
  std::ranges::set_difference(after.duplicates, before.duplicates,
                              std::back_inserter(outcome.duplicates), SameStory());
  std::ranges::sort(outcome.duplicates, {}, [](const Duplicate& duplicate) {
    return std::tie(duplicate.winner_file, duplicate.winner_line);
  });
  outcome.changes = diff(before.handed_out, after.handed_out);
  return outcome;
}

// What these files define, now and then, and the Endpoints that may begin or cease to count.
std::vector<Key> Merge::touched(const Definitions::Files& changed) const {
  std::vector<Key> keys;
  const auto add = [&](const std::vector<Definition>& definitions) {
    for (const Definition& definition : definitions) {
      keys.push_back(definition.key());
      touch_endpoints(definition, keys);
    }
  };
  for (const auto& [name, definitions] : changed) {
    add(definitions);
    const auto known = definitions_.files().find(name);
    if (known != definitions_.files().end()) add(known->second);
  }
  sort_unique(keys);

  // A slice of another file counts as soon as that of a changed one is gone, and the other way.
  std::vector<Definition*> found;
  const size_t size = keys.size();
  for (size_t i = 0; i < size; ++i) {
    if (keys[i].kind != Kind::Slice) continue;
    definitions_.find(keys[i], found);
    for (const Definition* definition : found)
      touch_endpoints(*definition, keys);
  }
  if (keys.size() > size) sort_unique(keys);
  return keys;
}

void Merge::touch_endpoints(const Definition& definition, std::vector<Key>& keys) const {
  const auto* slice = std::get_if<SlicePtr>(&definition.object);
  if (slice == nullptr) return;
  const Key endpoints{Kind::Endpoints, (*slice)->service.ns, (*slice)->service.name};
  if (definitions_.contains(endpoints)) keys.push_back(endpoints);
}

Merge::View Merge::look_at(const std::vector<Key>& keys) const {
  View view;
  std::vector<Definition*> found;
  for (const Key& key : keys) {
    definitions_.find(key, found);
    if (found.empty()) continue;
    for (size_t i = 1; i < found.size(); ++i) {
      const Definition& loser = *found[i - 1];
      const Definition& winner = *found[i];
      view.duplicates.insert({key.str(), *loser.file, loser.line, *winner.file, winner.line});
    }
    hand_out(*found.back(), view.handed_out);
  }
  // Only the slices of Endpoints are not where they belong yet.
  if (!std::ranges::is_sorted(view.handed_out, {}, key_of)) {
    std::ranges::sort(view.handed_out, {}, key_of);
  }
  return view;
}

void Merge::hand_out(Definition& winner, std::vector<Place>& out) const {
  const auto add = [&]<typename T>(T& object) {
    if constexpr (!std::is_same_v<T, std::unique_ptr<Endpoints>>) {
      out.emplace_back(&object);
    } else if (!definitions_.has_slices(object->key)) {
      for (SlicePtr& slice : object->slices)
        out.emplace_back(&slice);
    }
  };
  std::visit(add, winner.object);
}

Key Merge::key_of(const Place& place) { return std::visit(HandedOutKey(), place); }

std::vector<model::Change> Merge::diff(const std::vector<Place>& before,
                                       const std::vector<Place>& after) {
  std::vector<model::Change> deletions;
  std::vector<model::Change> others;
  auto old = before.begin();
  for (const Place& place : after) {
    const Key key = key_of(place);
    for (; old != before.end() && key_of(*old) < key; ++old)
      deletions.push_back(std::visit(Deletion(), *old));
    const bool known = old != before.end() && key_of(*old) == key;
    if (known && std::visit(KeepIfEqual(), *old++, place)) continue;
    others.push_back(std::visit([](auto* object) { return model::Change(*object); }, place));
  }
  for (; old != before.end(); ++old)
    deletions.push_back(std::visit(Deletion(), *old));
  std::ranges::move(others, std::back_inserter(deletions));
  return deletions;
}

}  // namespace source
