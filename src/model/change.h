// What a source says: one object is now like this, or is gone.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "model/objects.h"

namespace model {

struct SliceKey {
  ServiceKey service;
  std::string name;

  auto operator<=>(const SliceKey&) const = default;
  bool operator==(const SliceKey&) const = default;
};

struct ServiceDeleted {
  ServiceKey key;
};
struct SliceDeleted {
  SliceKey key;
};
struct NodeDeleted {
  std::string name;
};
struct ServiceCidrDeleted {
  std::string name;
};

using Change = std::variant<std::shared_ptr<const Service>, std::shared_ptr<const EndpointSlice>,
                            std::shared_ptr<const Node>, std::shared_ptr<const ServiceCidr>,
                            ServiceDeleted, SliceDeleted, NodeDeleted, ServiceCidrDeleted>;

}  // namespace model
