// The ways into a Service port, and how those who come by each are treated. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/local_traffic.h"
#include "plan/plan.h"
#include "relay/gate.h"

namespace userspace {

enum class Way : uint8_t {
  Internal,      // the cluster IP
  External,      // node port, external IPs, load-balancer IPs
  LoadBalancer,  // load-balancer IPs that not everybody may use
};
inline constexpr std::array kWays{Way::Internal, Way::External, Way::LoadBalancer};

// The way whose front serves this one, too: ways that are treated alike share a socket and a proxy port. Does not depend
// on endpoints, so that rules do not.
Way front_of(Way way, const plan::PortPlan& plan);
// The ways that have a front of their own.
std::vector<Way> fronts_of(const plan::PortPlan& plan);

// Some of the endpoints of a Service port.
enum class List : uint8_t { None, Cluster, Local };

// What a front does. Default: nothing for anybody.
struct Treatment {
  bool refuse = false;  // the kernel says so at once
  List list = List::None;
  List for_local = List::None;  // clients on this node; None: as everybody
  relay::Gate gate;             // whoever does not pass gets no answer

  bool operator==(const Treatment&) const = default;
};
Treatment treatment_of(Way way, const plan::PortPlan& plan, const plan::LocalTraffic& local);

}  // namespace userspace
