#include "source/merge.h"

#include <array>
#include <string_view>
#include <utility>

namespace source {

namespace {

using Key = Merge::Key;
using Kind = Key::Kind;
using ServicePtr = std::shared_ptr<const model::Service>;
using SlicePtr = std::shared_ptr<const model::EndpointSlice>;
using NodePtr = std::shared_ptr<const model::Node>;
using ServiceCidrPtr = std::shared_ptr<const model::ServiceCidr>;

template <typename... Fs>
struct Overload : Fs... {
  using Fs::operator()...;
};

// The identity of a definition.
Key key_of(const Object& object) {
  return std::visit(
      Overload{
          [](const ServicePtr& service) {
            return Key{Kind::Service, service->key.ns, service->key.name};
          },
          [](const SlicePtr& slice) { return Key{Kind::Slice, slice->service.ns, slice->name}; },
          [](const NodePtr& node) { return Key{Kind::Node, "", node->name}; },
          [](const ServiceCidrPtr& cidr) { return Key{Kind::ServiceCidr, "", cidr->name}; },
          [](const Endpoints& endpoints) {
            return Key{Kind::Endpoints, endpoints.key.ns, endpoints.key.name};
          },
      },
      object.any);
}

Key slice_key(const model::EndpointSlice& slice) {
  return {Kind::Slice, slice.service.ns, slice.name, slice.service.name};
}

std::string describe(const Key& key) {
  constexpr std::array<std::string_view, 5> kNames{"Node", "ServiceCIDR", "Service",
                                                   "EndpointSlice", "Endpoints"};
  std::string out(kNames[static_cast<size_t>(key.kind)]);
  out += ' ';
  if (!key.ns.empty()) out += key.ns + "/";
  return out + key.name;
}

model::Change deletion(const Key& key) {
  switch (key.kind) {
    case Kind::Node:
      return model::NodeDeleted{key.name};
    case Kind::ServiceCidr:
      return model::ServiceCidrDeleted{key.name};
    case Kind::Service:
      return model::ServiceDeleted{{key.ns, key.name}};
    case Kind::Slice:
    case Kind::Endpoints:
      break;
  }
  return model::SliceDeleted{{{key.ns, key.service}, key.name}};
}

template <typename Held>
bool equal_values(const Held& a, const Held& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& left) {
        const auto& right = *std::get_if<std::decay_t<decltype(left)>>(&b);
        return left == right || *left == *right;
      },
      a);
}

template <typename Held>
model::Change as_change(const Held& held) {
  return std::visit([](const auto& object) { return model::Change(object); }, held);
}

}  // namespace

std::map<Key, Merge::Definition> Merge::winners(const std::vector<FileObjects*>& files,
                                                std::vector<Duplicate>& news) {
  std::map<Key, Definition> out;
  std::set<std::string> duplicates;
  for (FileObjects* file : files) {
    for (Object& object : file->objects) {
      const Definition definition{&file->name, &object};
      const auto [entry, fresh] = out.try_emplace(key_of(object), definition);
      if (fresh) continue;
      const Definition loser = std::exchange(entry->second, definition);
      std::string what = describe(entry->first);
      std::string id = what + '\n' + *loser.file + '\n' + file->name;
      if (!told_duplicates_.contains(id) && !duplicates.contains(id)) {
        news.push_back(
            {std::move(what), *loser.file, loser.object->at.line, file->name, object.at.line});
      }
      duplicates.insert(std::move(id));
    }
  }
  told_duplicates_ = std::move(duplicates);
  return out;
}

std::map<Key, Merge::Wanted> Merge::wanted(const std::map<Key, Definition>& winners) {
  std::map<Key, Wanted> out;
  std::set<model::ServiceKey> with_slices;
  const auto add = [&out](Key key, const auto& object, Object* origin) {
    // The winners come in order, so that this is nearly always at the end.
    out.insert_or_assign(out.end(), std::move(key), Wanted{Held(object), origin});
  };
  const bool any_endpoints =
      !winners.empty() && winners.rbegin()->first.kind == Key::Kind::Endpoints;
  for (const auto& [key, definition] : winners) {
    Object* origin = definition.object;
    if (const auto* slice = std::get_if<SlicePtr>(&origin->any)) {
      if (any_endpoints) with_slices.insert((*slice)->service);
      add(slice_key(**slice), *slice, origin);
    } else if (const auto* service = std::get_if<ServicePtr>(&origin->any)) {
      add(key, *service, origin);
    } else if (const auto* node = std::get_if<NodePtr>(&origin->any)) {
      add(key, *node, origin);
    } else if (const auto* cidr = std::get_if<ServiceCidrPtr>(&origin->any)) {
      add(key, *cidr, origin);
    } else if (!with_slices.contains(std::get<Endpoints>(origin->any).key)) {
      // Kind::Endpoints is behind Kind::Slice: by now all slices are known.
      for (const auto& part : std::get<Endpoints>(origin->any).slices) {
        add(slice_key(*part), part, nullptr);
      }
    }
  }
  return out;
}

Merge::Outcome Merge::update(const std::vector<FileObjects*>& files) {
  Outcome outcome;
  auto fresh = wanted(winners(files, outcome.duplicates));
  for (const auto& [key, held] : handed_out_) {
    if (!fresh.contains(key)) outcome.changes.push_back(deletion(key));
  }
  std::map<Key, Held> next;
  for (auto& [key, wanted] : fresh) {
    const auto before = handed_out_.find(key);
    if (before != handed_out_.end() && equal_values(before->second, wanted.held)) {
      wanted.held = before->second;
      if (wanted.origin != nullptr) {
        std::visit([&](const auto& object) { wanted.origin->any = object; }, wanted.held);
      }
    } else {
      outcome.changes.push_back(as_change(wanted.held));
    }
    next.emplace_hint(next.end(), key, std::move(wanted.held));
  }
  handed_out_ = std::move(next);
  return outcome;
}

}  // namespace source
