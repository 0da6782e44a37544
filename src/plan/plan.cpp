#include "plan/plan.h"

#include <algorithm>
#include <cstring>

#include "plan/annotation.h"
#include "plan/balancing.h"

namespace plan {
namespace {

using model::EndpointSlice;
using model::Hint;
using model::Service;
using model::ServiceEntry;
using model::ServicePort;

// An endpoint on its way into a plan, with what is needed to choose.
struct Candidate {
  EndpointPlan plan;
  const EndpointSlice* slice = nullptr;
  uint32_t index = 0;  // in the slice
  const model::Endpoint& endpoint() const { return slice->endpoints[index]; }
  bool ready() const { return endpoint().ready; }
  bool last_resort() const { return endpoint().serving && endpoint().terminating; }
};

// Of two entries with one ip:port, does the later one stand in for the earlier one?
// Within a slice as upstream: one that is not terminating replaces. Between slices upstream picks
// at random among those; we keep the first by slice name.
bool replaces(const Candidate& later, const Candidate& earlier) {
  if (later.endpoint().terminating) return false;
  return earlier.endpoint().terminating || later.slice == earlier.slice;
}

void add_candidates(const EndpointSlice& slice, const ServicePort& port, const Context& context,
                    std::vector<Candidate>& out) {
  for (const auto& slice_port : slice.ports) {
    if (slice_port.name != port.name || slice_port.protocol != port.protocol) continue;
    for (uint32_t i = 0; i < slice.endpoints.size(); ++i) {
      const auto& endpoint = slice.endpoints[i];
      Candidate candidate;
      candidate.slice = &slice;
      candidate.index = i;
      candidate.plan.ip = endpoint.ip;
      candidate.plan.port = slice_port.port;
      candidate.plan.text = EndpointText(endpoint.ip, slice_port.port);
      candidate.plan.local =
          endpoint.node.size > 0 && slice.view(endpoint.node) == context.node_name;
      out.push_back(candidate);
    }
  }
}

// All endpoints of the port, by text, one for each ip:port.
std::vector<Candidate> gather(const ServiceEntry& entry, const ServicePort& port,
                              const Context& context) {
  std::vector<Candidate> all;
  for (const auto& slice : entry.slices) {
    if (slice->family == context.family) add_candidates(*slice, port, context, all);
  }
  // Stable: equal texts stay in the order of slice names.
  std::ranges::stable_sort(all, {}, [](const Candidate& c) { return c.plan.text.view(); });
  std::vector<Candidate> unique;
  unique.reserve(all.size());
  for (auto& candidate : all) {
    if (!unique.empty() && unique.back().plan.text.view() == candidate.plan.text.view()) {
      if (replaces(candidate, unique.back())) unique.back() = candidate;
    } else {
      unique.push_back(candidate);
    }
  }
  return unique;
}

struct HintMatch {
  bool any = false;      // the endpoint has hints of that kind
  bool matches = false;  // one of them names us
};

HintMatch match_hints(const Candidate& candidate, Hint::Kind kind, std::string_view name) {
  HintMatch match;
  const auto& hints = candidate.slice->hints;
  auto hint = std::ranges::lower_bound(hints, candidate.index, {}, &Hint::endpoint);
  for (; hint != hints.end() && hint->endpoint == candidate.index; ++hint) {
    if (hint->kind != kind) continue;
    match.any = true;
    match.matches = match.matches || candidate.slice->view(hint->name) == name;
  }
  return match;
}

// Hints of a kind count only if every ready endpoint has them and one of them names us.
bool hints_apply(const std::vector<Candidate>& all, Hint::Kind kind, std::string_view name) {
  bool named = false;
  for (const auto& candidate : all) {
    if (!candidate.ready()) continue;
    const HintMatch match = match_hints(candidate, kind, name);
    if (!match.any) return false;
    named = named || match.matches;
  }
  return named;
}

Topology choose_topology(const std::vector<Candidate>& all, const Context& context) {
  const auto has_hints = [](const Candidate& c) { return !c.slice->hints.empty(); };
  if (std::ranges::none_of(all, has_hints)) return Topology::None;
  if (hints_apply(all, Hint::Kind::Node, context.node_name)) return Topology::SameNode;
  if (!context.zone.empty() && hints_apply(all, Hint::Kind::Zone, context.zone)) {
    return Topology::SameZone;
  }
  return Topology::None;
}

bool allowed(const Candidate& candidate, Topology topology, const Context& context) {
  switch (topology) {
    case Topology::None:
      return true;
    case Topology::SameNode:
      return match_hints(candidate, Hint::Kind::Node, context.node_name).matches;
    case Topology::SameZone:
      return match_hints(candidate, Hint::Kind::Zone, context.zone).matches;
  }
  return true;
}

// The reason of an endpoint that is not ready, given whether ready ones are to be had.
Reason unready_reason(const Candidate& candidate, bool have_ready) {
  if (!candidate.last_resort()) return Reason::NotReady;
  return have_ready ? Reason::Terminating : Reason::LastResort;
}

void choose_cluster(std::vector<Candidate>& all, PortPlan& port, const Context& context) {
  port.topology = choose_topology(all, context);
  const bool have_ready = std::ranges::any_of(
      all, [&](const Candidate& c) { return c.ready() && allowed(c, port.topology, context); });
  const Reason elsewhere =
      port.topology == Topology::SameNode ? Reason::OtherNode : Reason::OtherZone;
  for (auto& candidate : all) {
    if (candidate.ready()) {
      const bool here = allowed(candidate, port.topology, context);
      candidate.plan.cluster = here ? Reason::Ready : elsewhere;
    } else {
      candidate.plan.cluster = unready_reason(candidate, have_ready);
    }
  }
}

void choose_local(std::vector<Candidate>& all) {
  const bool have_ready =
      std::ranges::any_of(all, [](const Candidate& c) { return c.plan.local && c.ready(); });
  for (auto& candidate : all) {
    if (!candidate.plan.local) {
      candidate.plan.node_local = Reason::Remote;
    } else if (candidate.ready()) {
      candidate.plan.node_local = Reason::Ready;
    } else {
      candidate.plan.node_local = unready_reason(candidate, have_ready);
    }
  }
}

void choose_endpoints(std::vector<Candidate> all, PortPlan& port, const Context& context) {
  if (port.uses_cluster()) choose_cluster(all, port, context);
  if (port.uses_local()) choose_local(all);
  port.endpoints.reserve(all.size());
  for (const auto& candidate : all) {
    port.cluster_count += in_use(candidate.plan.cluster);
    port.local_count += in_use(candidate.plan.node_local);
    port.has_endpoints = port.has_endpoints || in_use(candidate.plan.cluster) ||
                         (port.uses_local() && (candidate.ready() || candidate.last_resort()));
    port.endpoints.push_back(candidate.plan);
  }
}

std::vector<net::IpAddr> of_family(const std::vector<net::IpAddr>& all, net::Family family) {
  std::vector<net::IpAddr> kept;
  std::ranges::copy_if(all, std::back_inserter(kept),
                       [&](const net::IpAddr& ip) { return ip.family() == family; });
  return kept;
}

// The ranges of this family; none if one of them lets everybody in.
std::vector<net::Cidr> source_ranges(const Service& service, net::Family family) {
  std::vector<net::Cidr> kept;
  for (const auto& range : service.source_ranges) {
    if (range.family() != family) continue;
    if (range.prefix_length() == 0) return {};
    kept.push_back(range);
  }
  return kept;
}

bool external_policy_local(const Service& service) {
  if (!service.external_policy_local) return false;
  return service.type == model::ServiceType::LoadBalancer ||
         service.type == model::ServiceType::NodePort ||
         (service.type == model::ServiceType::ClusterIp && !service.external_ips.empty());
}

// Everything of the plan that all ports of the Service share.
PortPlan common_part(const Service& service, const Context& context) {
  PortPlan common;
  common.cluster_ip = *service.cluster_ips[static_cast<size_t>(context.family)];
  common.external_ips = of_family(service.external_ips, context.family);
  common.load_balancer_ips = of_family(service.load_balancer_ips, context.family);
  common.source_ranges = source_ranges(service, context.family);
  common.node_in_source_ranges =
      std::ranges::any_of(common.source_ranges,
                          [&](const net::Cidr& range) { return range.contains(context.node_ip); });
  common.affinity_timeout_s = service.affinity_timeout_s;
  common.internal_local = service.internal_policy_local;
  common.external_local = external_policy_local(service);
  if (service.type == model::ServiceType::LoadBalancer && common.external_local) {
    common.health_check_node_port = service.health_check_node_port;
  }
  // Parity: with the gate off external IPs get no rules but still count here.
  common.externally_accessible = !common.external_ips.empty() || !common.load_balancer_ips.empty();
  if (!context.external_ips) common.external_ips.clear();
  return common;
}

void weigh(std::vector<Candidate>& all, const Weights& weights) {
  for (auto& candidate : all) {
    const auto node = candidate.slice->view(candidate.endpoint().node);
    candidate.plan.weight = weights.of(candidate.plan.ip, node);
  }
}

PortPlan compile_port(const ServiceEntry& entry, const ServicePort& port, const PortPlan& common,
                      const std::optional<Weights>& weights, const Context& context) {
  PortPlan plan = common;
  plan.name = port_name(entry.key, port);
  plan.port_name = port.name;
  plan.protocol = port.protocol;
  plan.port = port.port;
  plan.node_port = port.node_port;
  plan.externally_accessible = common.externally_accessible || port.node_port != 0;
  auto candidates = gather(entry, port, context);
  if (weights) weigh(candidates, *weights);
  choose_endpoints(std::move(candidates), plan, context);
  return plan;
}

void set_proxy_protocol(ServicePlan& plan, const std::string& annotation) {
  plan.proxy_protocol = annotation == "v2";
  if (plan.proxy_protocol || annotation.empty()) return;
  plan.proxy_protocol_problem = annotation_problem(model::kUserspaceProxyProtocolAnnotation,
                                                   shown(annotation) + ": must be v2");
}

}  // namespace

bool in_use(Reason reason) { return reason == Reason::Ready || reason == Reason::LastResort; }

std::string_view word(Reason reason) {
  constexpr std::array<std::string_view, 8> kWords{"ready",       "last-resort", "not-ready",
                                                   "terminating", "other-zone",  "other-node",
                                                   "remote",      "not-asked"};
  return kWords[static_cast<size_t>(reason)];
}

EndpointText::EndpointText(const net::IpAddr& ip, uint16_t port) {
  std::string text;
  net::append_endpoint(text, ip, port);
  size_ = static_cast<uint8_t>(text.size());
  std::memcpy(text_.data(), text.data(), text.size());
}

Verdict PortPlan::internal_verdict() const {
  if (!has_endpoints) return Verdict::Reject;
  if (!internal_local) return Verdict::Cluster;
  return local_count > 0 ? Verdict::Local : Verdict::Drop;
}

Verdict PortPlan::external_verdict() const {
  if (!has_endpoints) return Verdict::Reject;
  if (!external_local) return Verdict::Cluster;
  return local_count > 0 ? Verdict::Local : Verdict::Drop;
}

size_t ServicePlan::endpoint_count() const {
  size_t count = 0;
  for (const auto& port : ports)
    count += port.endpoints.size();
  return count;
}

std::string port_name(const model::ServiceKey& key, const ServicePort& port) {
  return port.name.empty() ? key.str() : key.str() + ":" + port.name;
}

ServicePlan compile_service(const model::ServiceEntry& entry, const Context& context) {
  ServicePlan plan{entry.key, {}};
  const auto& service = entry.service;
  if (service == nullptr || service->skip != model::SkipReason::None) return plan;
  if (!service->cluster_ips[static_cast<size_t>(context.family)]) return plan;
  const PortPlan common = common_part(*service, context);
  Balancing balancing = balancing_of(*service);
  for (const auto& port : service->ports) {
    plan.ports.push_back(compile_port(entry, port, common, balancing.weights, context));
  }
  plan.scheduler = std::move(balancing.scheduler);
  plan.problems = std::move(balancing.problems);
  set_proxy_protocol(plan, service->proxy_protocol);
  std::ranges::stable_sort(plan.ports, [](const PortPlan& a, const PortPlan& b) {
    return std::tie(a.port_name, a.protocol) < std::tie(b.port_name, b.protocol);
  });
  return plan;
}

std::vector<ServicePlan> compile_all(const model::ServiceMap& services, const Context& context) {
  std::vector<ServicePlan> plans;
  plans.reserve(services.size());
  services.for_each([&](const auto& entry) {
    ServicePlan plan = compile_service(*entry, context);
    if (!plan.ports.empty()) plans.push_back(std::move(plan));
  });
  return plans;
}

std::vector<ServicePlan> compile_some(const model::ServiceMap& services,
                                      const std::set<model::ServiceKey>& keys,
                                      const Context& context) {
  std::vector<ServicePlan> plans;
  plans.reserve(keys.size());
  for (const auto& key : keys) {
    const auto entry = services.find(key);
    plans.push_back(entry != nullptr ? compile_service(*entry, context) : ServicePlan{key, {}});
  }
  return plans;
}

}  // namespace plan
