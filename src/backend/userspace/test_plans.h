// Plans for the tests of this room.
#pragma once

#include "plan/plan.h"
#include "support/builders.h"

namespace userspace {

inline plan::Context context(net::Family family = net::Family::V4) {
  return {.family = family,
          .node_name = "node1",
          .zone = {},
          .node_ip = build::ip(family == net::Family::V4 ? "192.168.0.2" : "fd00::2"),
          .external_ips = true};
}

// The plan of the first port.
template <typename... Slices>
plan::PortPlan plan_of(const build::service& service, const Slices&... slices) {
  return plan::compile_service(build::entry(service, slices...), context()).ports.at(0);
}

inline build::slice here(const char* name) {
  return build::slice(name, "here").port("http", 8080).ready("10.244.1.2", "node1");
}
inline build::slice elsewhere(const char* name) {
  return build::slice(name, "elsewhere").port("http", 8080).ready("10.244.2.2", "node2");
}

}  // namespace userspace
