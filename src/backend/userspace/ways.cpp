#include "backend/userspace/ways.h"

namespace userspace {
namespace {

using plan::LocalTraffic;
using plan::PortPlan;
using plan::Verdict;

const relay::Sources kNobody{};

Treatment internal(const PortPlan& plan) {
  switch (plan.internal_verdict()) {
    case Verdict::Reject:
      return {.refuse = true};
    case Verdict::Cluster:
      return {.list = List::Cluster};
    case Verdict::Local:
      return {.list = List::Local};
    case Verdict::Drop:
      break;
  }
  return {.gate = {{kNobody}}};
}

// Without an endpoint here, only clients of this node are served.
relay::Gate gate_for_local(const LocalTraffic& local) {
  switch (local.by) {
    case LocalTraffic::By::Nothing:
      return {{{.networks = {}, .this_node = true}}};
    case LocalTraffic::By::Source:
      return {{{.networks = {local.cidr}, .this_node = true}}};
    case LocalTraffic::By::Interface:
    case LocalTraffic::By::InterfacePrefix:
      break;
  }
  // A filter of a socket does not see by which interface its owner is reached: the others are let in, and reset.
  return {};
}

Treatment external(const PortPlan& plan, const LocalTraffic& local) {
  switch (plan.external_verdict()) {
    case Verdict::Reject:
      return {.refuse = true};
    case Verdict::Cluster:
      return {.list = List::Cluster};
    case Verdict::Local:
      return {.list = List::Local, .for_local = List::Cluster};
    case Verdict::Drop:
      break;
  }
  return {.for_local = List::Cluster, .gate = gate_for_local(local)};
}

bool has_externals(const PortPlan& plan) {
  return plan.node_port != 0 || !plan.external_ips.empty() ||
         (!plan.load_balancer_ips.empty() && !plan.restricted());
}

}  // namespace

Way front_of(Way way, const PortPlan& plan) {
  const bool alike = !plan.internal_local && !plan.external_local;
  return way == Way::External && alike ? Way::Internal : way;
}

std::vector<Way> fronts_of(const PortPlan& plan) {
  std::vector<Way> ways{Way::Internal};
  if (has_externals(plan) && front_of(Way::External, plan) == Way::External)
    ways.push_back(Way::External);
  if (plan.restricted()) ways.push_back(Way::LoadBalancer);
  return ways;
}

Treatment treatment_of(Way way, const PortPlan& plan, const LocalTraffic& local) {
  if (way == Way::Internal) return internal(plan);
  Treatment treatment = external(plan, local);
  if (way == Way::LoadBalancer && !treatment.refuse) {
    treatment.gate.rules.push_back(
        {.networks = plan.source_ranges, .this_node = plan.node_in_source_ranges});
  }
  return treatment;
}

}  // namespace userspace
