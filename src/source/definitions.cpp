#include "source/definitions.h"

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <utility>

namespace source {

namespace {

using Kind = Key::Kind;

struct KeyOf {
  Key operator()(const ServicePtr& service) const {
    return {Kind::Service, service->key.ns, service->key.name};
  }
  Key operator()(const SlicePtr& slice) const {
    return {Kind::Slice, slice->service.ns, slice->name};
  }
  Key operator()(const NodePtr& node) const { return {Kind::Node, "", node->name}; }
  Key operator()(const ServiceCidrPtr& cidr) const { return {Kind::ServiceCidr, "", cidr->name}; }
  Key operator()(const std::unique_ptr<Endpoints>& endpoints) const {
    return {Kind::Endpoints, endpoints->key.ns, endpoints->key.name};
  }
};

bool comes_before(const Definition* a, const Definition* b) {
  return a->file == b->file ? std::less<>()(a, b) : *a->file < *b->file;
}

// REQUIRES: it is a slice.
const model::ServiceKey& service_of(const Definition& definition) {
  return std::get<SlicePtr>(definition.object)->service;
}

}  // namespace

std::string Key::str() const {
  constexpr std::array<std::string_view, 5> kNames{"Node", "ServiceCIDR", "Service",
                                                   "EndpointSlice", "Endpoints"};
  std::string out(kNames[static_cast<size_t>(kind)]);
  out += ' ';
  if (!ns.empty()) out.append(ns) += '/';
  return out.append(name);
}

Key Definition::key() const { return std::visit(KeyOf(), object); }

size_t Definitions::ByKey::operator()(const Key& key) const {
  constexpr size_t kSpread = 0x9e3779b97f4a7c15;  // so that ns and name do not cancel out
  const std::hash<std::string_view> hash;
  return (hash(key.ns) * kSpread + static_cast<size_t>(key.kind)) * kSpread + hash(key.name);
}

bool Definitions::ByService::operator()(const Definition* a, const model::ServiceKey& b) const {
  return service_of(*a) < b;
}

bool Definitions::ByService::operator()(const model::ServiceKey& a, const Definition* b) const {
  return a < service_of(*b);
}

bool Definitions::ByService::operator()(const Definition* a, const Definition* b) const {
  const auto order = service_of(*a) <=> service_of(*b);
  return order < 0 || (order == 0 && std::less<>()(a, b));
}

void Definitions::find(const Key& key, std::vector<Definition*>& out) const {
  const auto [first, end] = by_key_.equal_range(key);
  out.assign(first, end);
  std::ranges::sort(out, comes_before);
}

Definition* Definitions::last(const Key& key) const {
  const auto [first, end] = by_key_.equal_range(key);
  return first == end ? nullptr : *std::max_element(first, end, comes_before);
}

void Definitions::erase(const Key& key, const Files& files) {
  auto [at, end] = by_key_.equal_range(key);
  while (at != end) {
    at = files.contains(*(*at)->file) ? by_key_.erase(at) : std::next(at);
  }
}

void Definitions::swap(Files& files, const std::vector<Key>& keys) {
  for (const Key& key : keys) {
    if (key.kind == Kind::Slice && contains(key)) slices_.erase(last(key));
    erase(key, files);
  }
  for (auto& [name, definitions] : files) {
    const auto entry = files_.try_emplace(name).first;
    entry->second.swap(definitions);
    for (Definition& definition : entry->second) {
      definition.file = &entry->first;
      by_key_.insert(&definition);
    }
    if (entry->second.empty()) files_.erase(entry);
  }
  for (const Key& key : keys) {
    if (key.kind == Kind::Slice && contains(key)) slices_.insert(last(key));
  }
}

}  // namespace source
