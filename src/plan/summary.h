// What the daemon must know of a Service besides its rules. Pure.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace plan {

struct ServiceSummary {
  uint16_t health_check_node_port = 0;  // 0: none
  uint32_t local_ready =
      0;  // distinct addresses of ready endpoints on this node; counted only if there is such a port
  uint32_t internal_without_local = 0;  // ports whose internal traffic must stay here, and cannot
  uint32_t external_without_local = 0;
  bool udp = false;

  bool operator==(const ServiceSummary&) const = default;
};

ServiceSummary summarize(const model::ServiceEntry& entry, const Context& context);

}  // namespace plan
