// Random histories of a small cluster, for laws that must hold whatever happens.
//
// The cluster is small on purpose (few names, few addresses), so that changes meet: a Service comes
// back, an endpoint moves between slices, two Services claim one address.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "model/change.h"
#include "support/builders.h"

namespace history {

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  model::Change next() {
    switch (below(8)) {
      case 0:
        return model::ServiceDeleted{build::key(service_name())};
      case 1:
        return model::SliceDeleted{{build::key(service_name()), slice_name()}};
      case 2:
      case 3:
        return a_service();
      default:
        return a_slice();
    }
  }

  std::vector<model::Change> changes(size_t count) {
    std::vector<model::Change> list;
    for (size_t i = 0; i < count; ++i)
      list.push_back(next());
    return list;
  }

 private:
  unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }
  bool one_in(unsigned n) { return below(n) == 0; }

  std::string service_name() {
    return (one_in(3) ? "kube-system/s" : "default/s") + std::to_string(below(6));
  }
  std::string slice_name() { return "slice-" + std::to_string(below(3)); }

  std::shared_ptr<const model::Service> a_service() {
    build::service object(service_name());
    if (!one_in(8)) object.cluster_ip("10.96.0." + std::to_string(1 + below(20)));
    if (one_in(3)) object.cluster_ip("fd00:96::" + std::to_string(1 + below(20)));
    const auto node_port = [&] { return static_cast<uint16_t>(one_in(2) ? 30000 + below(10) : 0); };
    object.port("http", static_cast<uint16_t>(80 + below(2)), node_port());
    if (one_in(2)) object.port("dns", 53, node_port(), net::Protocol::Udp);
    if (one_in(6)) object.port("sig", 9899, 0, net::Protocol::Sctp);
    if (one_in(3)) object.node_port_type();
    if (one_in(3))
      object.load_balancer("203.0.113." + std::to_string(1 + below(4))).health_check(30999);
    if (one_in(6)) object.load_balancer("2001:db8::" + std::to_string(1 + below(4)));
    if (one_in(4)) object.external_ip("198.51.100." + std::to_string(1 + below(3)));
    if (one_in(4)) object.source_range("172.31.0.0/24").source_range("10.0.0.0/8");
    if (one_in(8)) object.source_range("0.0.0.0/0");
    if (one_in(4)) object.affinity(10800);
    if (one_in(3)) object.local_external();
    if (one_in(5)) object.local_internal();
    if (one_in(10)) object.skipped(model::SkipReason::ExternalName);
    return object.ptr();
  }

  std::shared_ptr<const model::EndpointSlice> a_slice() {
    const bool six = one_in(5);
    build::slice object(service_name(), slice_name(), six ? net::Family::V6 : net::Family::V4);
    if (!one_in(6)) object.port("http", static_cast<uint16_t>(8080 + below(2)));
    if (one_in(2)) object.port("dns", 53, net::Protocol::Udp);
    if (one_in(4)) object.port("sig", 9899, net::Protocol::Sctp);
    const bool hints = one_in(4);
    for (unsigned i = below(7); i > 0; --i) {
      const std::string address =
          (six ? "fd00:244::" : "10.244.0.") + std::to_string(1 + below(30));
      const std::string node = "node" + std::to_string(1 + below(3));
      const bool terminating = one_in(4);
      object.endpoint(address, node, !terminating && !one_in(4), !one_in(4), terminating);
      if (hints) object.for_zone("zone-" + std::string(1, static_cast<char>('a' + below(2))));
    }
    return object.ptr();
  }

  std::mt19937 random_;
};

}  // namespace history
