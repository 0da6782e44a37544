#include "model/store.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace model {
namespace {

template <typename T>
bool same(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

ServiceEntry entry_for(const ServiceMap& map, const ServiceKey& key) {
  const auto found = map.find(key);
  return found != nullptr ? *found : ServiceEntry{key, nullptr, {}};
}

DirtySet dirty(const ServiceKey& key) {
  DirtySet set;
  set.services.insert(key);
  return set;
}

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

}  // namespace

void DirtySet::merge(DirtySet other) {
  services.merge(other.services);
  node = node || other.node;
  service_cidrs = service_cidrs || other.service_cidrs;
}

Store::Store(std::string node_name) : node_name_(std::move(node_name)) {}

DirtySet Store::fold(Change change) {
  return std::visit(
      Overloaded{
          [&](std::shared_ptr<const Service>& s) { return set_service(s->key, s); },
          [&](std::shared_ptr<const EndpointSlice>& s) {
            return set_slice(SliceKey{s->service, s->name}, s);
          },
          [&](std::shared_ptr<const Node>& n) { return set_node(n->name, n); },
          [&](std::shared_ptr<const ServiceCidr>& c) { return set_cidr(c->name, c); },
          [&](const ServiceDeleted& gone) { return set_service(gone.key, nullptr); },
          [&](const SliceDeleted& gone) { return set_slice(gone.key, nullptr); },
          [&](const NodeDeleted& gone) { return set_node(gone.name, nullptr); },
          [&](const ServiceCidrDeleted& gone) { return set_cidr(gone.name, nullptr); },
      },
      change);
}

SnapshotPtr Store::snapshot() const { return std::make_shared<const Snapshot>(state_); }

DirtySet Store::set_service(const ServiceKey& key, std::shared_ptr<const Service> service) {
  ServiceEntry entry = entry_for(state_.services, key);
  if (same(entry.service, service)) return {};
  entry.service = std::move(service);
  replace(std::move(entry));
  return dirty(key);
}

DirtySet Store::set_slice(const SliceKey& key, std::shared_ptr<const EndpointSlice> slice) {
  ServiceEntry entry = entry_for(state_.services, key.service);
  auto at = std::ranges::lower_bound(entry.slices, key.name, {},
                                     [](const auto& s) -> const std::string& { return s->name; });
  const bool found = at != entry.slices.end() && (*at)->name == key.name;
  if (found && same(*at, slice)) return {};
  if (!found && slice == nullptr) return {};
  if (found && slice == nullptr) {
    entry.slices.erase(at);
  } else if (found) {
    *at = std::move(slice);
  } else {
    entry.slices.insert(at, std::move(slice));
  }
  replace(std::move(entry));
  return dirty(key.service);
}

void Store::replace(ServiceEntry entry) {
  if (entry.service == nullptr && entry.slices.empty()) {
    state_.services.erase(entry.key);
  } else {
    entry.slices.shrink_to_fit();
    state_.services.put(std::make_shared<const ServiceEntry>(std::move(entry)));
  }
}

DirtySet Store::set_node(const std::string& name, std::shared_ptr<const Node> node) {
  // Parity: a deleted Node keeps its last known zone and addresses in force.
  if (name != node_name_ || node == nullptr || same(state_.node, node)) return {};
  const auto before = std::exchange(state_.node, std::move(node));
  const auto rules_part = [](const Node& n) { return std::tie(n.zone, n.addresses, n.pod_cidrs); };
  DirtySet set;
  set.node = before == nullptr || rules_part(*before) != rules_part(*state_.node);
  return set;
}

DirtySet Store::set_cidr(const std::string& name, std::shared_ptr<const ServiceCidr> cidr) {
  if (cidr == nullptr) {
    cidrs_.erase(name);
  } else {
    cidrs_[name] = std::move(cidr);
  }
  std::set<net::Cidr> all;
  for (const auto& [_, object] : cidrs_)
    all.insert(object->cidrs.begin(), object->cidrs.end());
  std::vector<net::Cidr> sorted(all.begin(), all.end());
  if (sorted == state_.service_cidrs) return {};
  state_.service_cidrs = std::move(sorted);
  DirtySet set;
  set.service_cidrs = true;
  return set;
}

}  // namespace model
