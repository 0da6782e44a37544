// Whatever object comes out of a source is safe to write into a rule.
#pragma once

#include <memory>
#include <string>

#include "base/check.h"
#include "model/objects.h"
#include "source/checks.h"

namespace fuzz {

inline bool is_port_name(const std::string& name) {
  return name.empty() || source::is_dns_label(name);
}

inline void check_safe(const model::ServiceKey& key) {
  CHECK(source::is_dns_label(key.ns) && source::is_dns_label(key.name));
}

inline void check_safe(const model::Service& service) {
  check_safe(service.key);
  for (const auto& port : service.ports)
    CHECK(is_port_name(port.name) && port.port != 0);
  for (const auto family : net::kFamilies) {
    const auto& ip = service.cluster_ips[static_cast<size_t>(family)];
    CHECK(!ip || ip->family() == family);
  }
  const auto timeout = service.affinity_timeout_s.value_or(1);
  CHECK(timeout >= 1 && timeout <= 86400);
}

inline void check_safe(const model::EndpointSlice& slice) {
  check_safe(slice.service);
  CHECK(slice.name.find_first_of(" \"\n") == std::string::npos);
  for (const auto& port : slice.ports)
    CHECK(is_port_name(port.name) && port.port != 0);
  for (const auto& endpoint : slice.endpoints) {
    CHECK(endpoint.ip.family() == slice.family);
    CHECK(endpoint.node.size == 0 || source::is_dns_subdomain(slice.view(endpoint.node)));
  }
  for (const auto& hint : slice.hints)
    CHECK(hint.endpoint < slice.endpoints.size());
}

inline void check_safe(const model::Node& node) { CHECK(source::is_dns_subdomain(node.name)); }

inline void check_safe(const model::ServiceCidr& cidr) {
  CHECK(source::is_dns_subdomain(cidr.name));
}

}  // namespace fuzz
