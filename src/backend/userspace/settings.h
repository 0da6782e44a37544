// What the configuration and the node say; fixed while the process runs.
#pragma once

#include <chrono>

#include "backend/userspace/portals.h"
#include "backend/userspace/ports.h"
#include "model/store.h"
#include "net/ip.h"
#include "plan/local_traffic.h"
#include "plan/plan.h"

namespace userspace {

struct Settings {
  plan::Context context;  // but for the zone, which the snapshot knows
  net::IpAddr listen;     // bindAddress; unspecified: all addresses
  net::IpAddr host;       // an address of this node, which its own traffic is led to
  PortRange ports;
  plan::LocalTraffic local_traffic;
  std::chrono::nanoseconds
      drain{};  // how long connections to endpoints that are gone may go on; 0: for ever

  PortalOptions portal_options() const;
  plan::Context context_of(const model::Snapshot& snapshot) const;
};

}  // namespace userspace
