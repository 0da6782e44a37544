// Folds changes into snapshots.
//
// A Snapshot never changes once handed out; hold it as long as you like, from any thread.
// Store itself lives on the loop thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/change.h"
#include "model/service_map.h"

namespace model {

struct Snapshot {
  ServiceMap services;
  std::shared_ptr<const Node> node;      // this node's object; null until seen
  std::vector<net::Cidr> service_cidrs;  // sorted, unique
};
using SnapshotPtr = std::shared_ptr<const Snapshot>;

// What may have to be programmed anew. Merging is a union, so it does not matter in how many
// pieces a change arrives.
struct DirtySet {
  std::set<ServiceKey> services;
  bool node = false;  // zone, addresses or podCIDRs of this node
  bool service_cidrs = false;

  bool empty() const { return services.empty() && !node && !service_cidrs; }
  void merge(DirtySet other);
};

class Store {
 public:
  // Node objects with another name are ignored.
  explicit Store(std::string node_name);

  // Applies one change and returns what it touched; empty if nothing is different afterwards.
  // REQUIRES: changes of one object arrive in order.
  DirtySet fold(Change change);

  SnapshotPtr snapshot() const;

 private:
  DirtySet set_service(const ServiceKey& key, std::shared_ptr<const Service> service);
  DirtySet set_slice(const SliceKey& key, std::shared_ptr<const EndpointSlice> slice);
  DirtySet set_node(const std::string& name, std::shared_ptr<const Node> node);
  DirtySet set_cidr(const std::string& name, std::shared_ptr<const ServiceCidr> cidr);

  // Puts the entry into the map, or removes it when nothing is left in it.
  void replace(ServiceEntry entry);

  std::string node_name_;
  Snapshot state_;
  std::map<std::string, std::shared_ptr<const ServiceCidr>> cidrs_;
};

}  // namespace model
