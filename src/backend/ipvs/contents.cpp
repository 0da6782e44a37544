#include "backend/ipvs/contents.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace ipvs {
namespace {

using kernel::ServerKey;
using kernel::SetEntry;
using kernel::VirtualServer;
using plan::EndpointPlan;
using plan::PortPlan;

bool contains(const std::vector<net::IpAddr>& sorted, const net::IpAddr& ip) {
  return std::ranges::binary_search(sorted, ip);
}

template <typename T>
void sort_once(std::vector<T>& list) {
  std::ranges::sort(list);
  const auto repeated = std::ranges::unique(list);
  list.erase(repeated.begin(), repeated.end());
  list.shrink_to_fit();
}

// Of equal keys the first that was added stays.
void sort_fronts(std::vector<Front>& fronts) {
  const auto key = [](const Front& front) -> const ServerKey& { return front.server.key; };
  std::ranges::stable_sort(fronts, {}, key);
  const auto repeated = std::ranges::unique(fronts, {}, key);
  fronts.erase(repeated.begin(), repeated.end());
  fronts.shrink_to_fit();
}

Targets targets_of(const PortPlan& port, plan::Reason EndpointPlan::* list, size_t count) {
  Targets targets;
  targets.reserve(count);
  for (const auto& endpoint : port.endpoints) {
    if (plan::in_use(endpoint.*list))
      targets.push_back({endpoint.ip, endpoint.port, endpoint.weight});
  }
  const auto place = [](const kernel::RealServer& real) { return std::tie(real.ip, real.port); };
  std::ranges::stable_sort(targets, {}, place);
  const auto repeated = std::ranges::unique(targets, {}, place);
  targets.erase(repeated.begin(), repeated.end());
  return targets;
}

// The kernel takes no network of length 0: its halves stand in for it.
std::vector<net::Cidr> as_kernel_takes(const net::Cidr& range) {
  if (range.prefix_length() > 0) return {range};
  if (range.family() == net::Family::V4)
    return {net::Cidr(net::IpAddr::v4(0), 1), net::Cidr(net::IpAddr::v4(1U << 31), 1)};
  return {net::Cidr(net::IpAddr::v6({}), 1), net::Cidr(net::IpAddr::v6({0x80}), 1)};
}

// Adds what one port of a Service needs.
class PortContents {
 public:
  PortContents(const PortPlan& port, const std::string& scheduler, const NodeAddresses& node,
               ServiceContents& out)
      : port_(port), scheduler_(scheduler), node_(node), out_(out) {}

  void add() {
    loop_back();
    cluster_ip();
    for (const auto& ip : port_.external_ips)
      external_ip(ip);
    for (const auto& ip : port_.load_balancer_ips)
      load_balancer_ip(ip);
    // Parity: a port that cannot have its node port has no node port for health checks either.
    if (port_.node_port != 0 && node_.node_ports.empty()) return;
    if (port_.node_port != 0) node_port();
    if (port_.health_check_node_port != 0)
      entry(SetId::HealthCheckNodePort, {.port = port_.health_check_node_port});
  }

 private:
  // Connections of an endpoint that lead back to itself need another source, whether it is ready or not.
  void loop_back() {
    for (const auto& endpoint : port_.endpoints) {
      if (!endpoint.local) continue;
      entry(SetId::LoopBack, {.ip = endpoint.ip,
                              .protocol = port_.protocol,
                              .port = endpoint.port,
                              .other = net::Cidr::host(endpoint.ip)});
    }
  }

  void cluster_ip() {
    entry(SetId::ClusterIp, at(port_.cluster_ip));
    front(port_.cluster_ip, port_.port, port_.internal_local);
    out_.bound.push_back(port_.cluster_ip);
  }

  void external_ip(const net::IpAddr& ip) {
    entry(port_.external_local ? SetId::ExternalIpLocal : SetId::ExternalIp, at(ip));
    external_front(ip);
  }

  void load_balancer_ip(const net::IpAddr& ip) {
    entry(SetId::LoadBalancer, at(ip));
    if (port_.external_local) entry(SetId::LoadBalancerLocal, at(ip));
    if (port_.restricted()) restriction(ip);
    external_front(ip);
  }

  void restriction(const net::IpAddr& ip) {
    entry(SetId::LoadBalancerFirewall, at(ip));
    for (const auto& range : port_.source_ranges) {
      for (const auto& network : as_kernel_takes(range))
        entry(SetId::LoadBalancerSourceCidr, at(ip, network));
    }
    // What comes from this node has the load-balancer address itself as its source.
    if (port_.node_in_source_ranges) {
      entry(SetId::LoadBalancerSourceIp, at(ip, net::Cidr::host(ip)));
    } else {
      out_.guards.push_back({ip, port_.protocol, port_.port});
    }
  }

  void node_port() {
    switch (port_.protocol) {
      case net::Protocol::Tcp:
        node_port_bit(SetId::NodePortTcp, SetId::NodePortLocalTcp);
        break;
      case net::Protocol::Udp:
        node_port_bit(SetId::NodePortUdp, SetId::NodePortLocalUdp);
        break;
      case net::Protocol::Sctp:
        for (const auto& ip : node_.node_ports)
          node_port_entries(SetId::NodePortSctp, SetId::NodePortLocalSctp,
                            {.ip = ip, .protocol = port_.protocol, .port = port_.node_port});
        break;
    }
    for (const auto& ip : node_.node_ports)
      front(ip, port_.node_port, port_.external_local);
  }

  void node_port_bit(SetId all, SetId local) {
    node_port_entries(all, local, {.port = port_.node_port});
  }
  void node_port_entries(SetId all, SetId local, const SetEntry& what) {
    entry(all, what);
    if (port_.external_local) entry(local, what);
  }

  // ---- what they consist of

  // An address of the node is there already, on a device that must keep it.
  void external_front(const net::IpAddr& ip) {
    front(ip, port_.port, port_.external_local);
    if (!contains(node_.own, ip)) out_.bound.push_back(ip);
  }

  void front(const net::IpAddr& ip, uint16_t number, bool local) {
    VirtualServer server{.key = {ip, number, port_.protocol}, .scheduler = scheduler_};
    if (port_.affinity_timeout_s) {
      server.flags |= VirtualServer::kPersistent;
      server.timeout_s = *port_.affinity_timeout_s;
    }
    if (scheduler_ == "mh") server.flags |= VirtualServer::kHashesPort;
    out_.fronts.push_back({std::move(server), targets(local)});
  }

  // Parity: with policy Local and no endpoint here, the others are used.
  uint32_t targets(bool local) {
    if (local && port_.local_count > 0)
      return list(local_, &EndpointPlan::node_local, port_.local_count);
    return list(cluster_, &EndpointPlan::cluster, port_.cluster_count);
  }

  uint32_t list(std::optional<uint32_t>& known, plan::Reason EndpointPlan::* which, size_t count) {
    if (!known) {
      known = static_cast<uint32_t>(out_.targets.size());
      out_.targets.push_back(targets_of(port_, which, count));
    }
    return *known;
  }

  void entry(SetId set, const SetEntry& what) { out_.entries.push_back({set, what}); }
  SetEntry at(const net::IpAddr& ip, const net::Cidr& other = {}) const {
    return {.ip = ip, .protocol = port_.protocol, .port = port_.port, .other = other};
  }

  const PortPlan& port_;
  const std::string& scheduler_;
  const NodeAddresses& node_;
  ServiceContents& out_;
  std::optional<uint32_t> cluster_, local_;  // which of ServiceContents::targets
};

}  // namespace

ServiceContents contents_of(const plan::ServicePlan& plan, const std::string& scheduler,
                            const NodeAddresses& node) {
  ServiceContents contents;
  for (const auto& port : plan.ports)
    PortContents(port, scheduler, node, contents).add();
  sort_fronts(contents.fronts);
  contents.targets.shrink_to_fit();
  sort_once(contents.entries);
  sort_once(contents.bound);
  sort_once(contents.guards);
  contents.endpoints = static_cast<uint32_t>(plan.endpoint_count());
  return contents;
}

}  // namespace ipvs
