#include "plan/summary.h"

#include <set>

#include "plan/flows.h"

namespace plan {
namespace {

uint32_t count_local_ready(const model::ServiceEntry& entry, const Context& context) {
  std::set<net::IpAddr> found;
  for (const auto& slice : entry.slices) {
    if (slice->family != context.family || slice->ports.empty()) continue;
    for (const auto& endpoint : slice->endpoints) {
      const bool local = endpoint.node.size > 0 && slice->view(endpoint.node) == context.node_name;
      if (local && endpoint.ready) found.insert(endpoint.ip);
    }
  }
  return static_cast<uint32_t>(found.size());
}

}  // namespace

ServiceSummary summarize(const model::ServiceEntry& entry, const Context& context) {
  ServiceSummary summary{.udp = has_udp(entry, context)};
  const auto& service = entry.service;
  // Of services without such a policy nothing else is to be said; they are most, and compiling is
  // not cheap.
  if (service == nullptr) return summary;
  if (!service->internal_policy_local && !service->external_policy_local) return summary;
  for (const PortPlan& port : compile_service(entry, context).ports) {
    summary.health_check_node_port = port.health_check_node_port;
    summary.internal_without_local += port.internal_verdict() == Verdict::Drop;
    summary.external_without_local +=
        port.externally_accessible && port.external_verdict() == Verdict::Drop;
  }
  if (summary.health_check_node_port != 0) summary.local_ready = count_local_ready(entry, context);
  return summary;
}

}  // namespace plan
