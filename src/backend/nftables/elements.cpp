#include "backend/nftables/elements.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <functional>

namespace nftables {
namespace {

using plan::EndpointPlan;
using plan::PortPlan;

uint8_t number(net::Protocol protocol) {
  switch (protocol) {
    case net::Protocol::Tcp:
      return IPPROTO_TCP;
    case net::Protocol::Udp:
      return IPPROTO_UDP;
    case net::Protocol::Sctp:
      return IPPROTO_SCTP;
  }
  __builtin_unreachable();
}

net::IpAddr last_of(const net::Cidr& cidr) {
  std::array<uint8_t, 16> bytes{};
  const size_t size = cidr.base().bits() / 8;
  std::copy_n(cidr.base().data(), size, bytes.begin());
  for (int bit = cidr.prefix_length(); bit < cidr.base().bits(); ++bit)
    bytes.at(static_cast<size_t>(bit / 8)) |= static_cast<uint8_t>(0x80 >> bit % 8);
  if (cidr.family() == net::Family::V6) return net::IpAddr::v6(bytes);
  uint32_t address = 0;
  std::memcpy(&address, bytes.data(), sizeof address);
  return net::IpAddr::v4(ntohl(address));
}

// Blocks are apart or one lies in the other: the kernel takes only those that are apart.
std::vector<net::Cidr> without_nested(std::span<const net::Cidr> blocks) {
  std::vector<net::Cidr> kept;
  std::vector<net::Cidr> sorted(blocks.begin(), blocks.end());
  std::ranges::sort(sorted, {}, &net::Cidr::prefix_length);
  for (const auto& block : sorted) {
    const auto holds = [&](const net::Cidr& other) { return other.contains(block.base()); };
    if (std::ranges::none_of(kept, holds)) kept.push_back(block);
  }
  return kept;
}

Bytes endpoint_value(const EndpointPlan& endpoint) {
  Bytes value;
  value.put(endpoint.ip);
  value.put_port(endpoint.port);
  return value;
}

bool in_cluster_list(const EndpointPlan& endpoint) { return plan::in_use(endpoint.cluster); }
bool in_local_list(const EndpointPlan& endpoint) { return plan::in_use(endpoint.node_local); }

// Renders the front ends of one Service port.
class PortRenderer {
 public:
  PortRenderer(const PortPlan& port, ServiceElements& out)
      : port_(port),
        out_(out),
        comment_(std::string_view(port.name).substr(0, kMaxComment)),
        owner_(owner_of(port.name, port.protocol)) {}

  void render() {
    render_cluster_ip();
    for (const auto& ip : port_.external_ips) {
      // A load-balancer IP may be restricted, and is that by either name.
      if (std::ranges::count(port_.load_balancer_ips, ip) == 0) render_external(at(ip));
    }
    for (const auto& ip : port_.load_balancer_ips) {
      if (render_external(at(ip)) && port_.restricted()) render_restriction(at(ip));
    }
    if (port_.node_port != 0) {
      render_external({.node_port = true, .protocol = port_.protocol, .port = port_.node_port});
    }
    render_hairpins();
  }

 private:
  FrontEnd at(const net::IpAddr& ip) const {
    return {.ip = ip, .protocol = port_.protocol, .port = port_.port};
  }

  // The same address may be there twice; then its elements are there already.
  bool open(const FrontEnd& front) {
    const auto same = [&](const Front& other) {
      return other.id == front && other.owner == owner_;
    };
    if (std::ranges::any_of(out_.fronts, same)) return false;
    out_.fronts.push_back(
        {.id = front, .owner = owner_, .first = out_.elements.size(), .count = 0});
    return true;
  }
  void add(Element element) {
    out_.elements.push_back(std::move(element));
    ++out_.fronts.back().count;
  }
  void add_verdict(SetId set, const FrontEnd& front, const Target& target) {
    add({.set = set, .key = key_of(front), .target = target, .comment = comment_});
  }

  // Appends the endpoints of one list, numbered from `offset` on, and returns how many they are.
  uint32_t add_list(const FrontEnd& front, bool (*in_list)(const EndpointPlan&), uint32_t offset) {
    const Bytes begin = key_of(front);
    const SetId map = front.node_port ? SetId::NodePortEndpoints : SetId::Endpoints;
    uint32_t count = 0;
    for (const auto& endpoint : port_.endpoints) {
      if (!in_list(endpoint)) continue;
      Bytes key = begin;
      key.put_mark(offset + count++);
      add({.set = map, .key = key, .value = endpoint_value(endpoint)});
    }
    return count;
  }

  void add_class(const FrontEnd& front, Class kind) {
    kind.node_port = front.node_port;
    kind.sticky = port_.affinity_timeout_s.has_value();
    add_verdict(front.node_port ? SetId::ServiceNodePorts : SetId::ServiceIps, front,
                {.kind = Target::Kind::Class, .front = kind});
    if (!kind.sticky) return;
    add_verdict(front.node_port ? SetId::StickyNodePorts : SetId::StickyServices, front,
                {.kind = Target::Kind::Remember, .timeout_s = *port_.affinity_timeout_s});
  }

  void add_no_endpoint(const FrontEnd& front, plan::Verdict verdict) {
    const auto kind = verdict == plan::Verdict::Drop ? Target::Kind::Drop : Target::Kind::Reject;
    add_verdict(front.node_port ? SetId::NoEndpointNodePorts : SetId::NoEndpointServices, front,
                {.kind = kind});
  }

  static bool leads_somewhere(plan::Verdict verdict) {
    return verdict == plan::Verdict::Cluster || verdict == plan::Verdict::Local;
  }

  void render_cluster_ip() {
    Bytes ip;
    ip.put(port_.cluster_ip);
    add_shared(SetId::ClusterIps, ip);
    const FrontEnd front = at(port_.cluster_ip);
    if (!open(front)) return;
    const auto verdict = port_.internal_verdict();
    if (!leads_somewhere(verdict)) return add_no_endpoint(front, verdict);
    const bool local = verdict == plan::Verdict::Local;
    add_class(front, {.endpoints = add_list(front, local ? in_local_list : in_cluster_list, 0)});
  }

  // False: it is there already.
  bool render_external(const FrontEnd& front) {
    if (!open(front)) return false;
    const auto verdict = port_.external_verdict();
    // Traffic of the node itself goes to any endpoint, even when that of others is dropped.
    if (port_.has_endpoints) {
      Class kind{.kind = Class::Kind::External};
      kind.endpoints = add_list(front, in_cluster_list, 0);
      if (port_.external_local) {
        kind.kind = Class::Kind::ExternalLocal;
        kind.local = add_list(front, in_local_list, kLocalList);
      }
      add_class(front, kind);
    }
    if (!leads_somewhere(verdict)) add_no_endpoint(front, verdict);
    return true;
  }

  void render_restriction(const FrontEnd& front) {
    add_verdict(SetId::FirewallIps, front, {.kind = Target::Kind::CheckSources});
    std::vector<net::Cidr> allowed = port_.source_ranges;
    // Parity: a node that may use the load balancer may also do so by its addresses, which it takes for its own.
    if (port_.node_in_source_ranges) {
      for (const auto& ip : port_.load_balancer_ips)
        allowed.push_back(net::Cidr::host(ip));
    }
    for (const auto& block : without_nested(allowed)) {
      Element element{.set = SetId::AllowedSources, .key = key_of(front), .key_end = key_of(front)};
      element.key.put(block.base());
      element.key_end.put(last_of(block));
      add(element);
    }
  }

  void render_hairpins() {
    for (const auto& endpoint : port_.endpoints) {
      if (!endpoint.local || !endpoint.reachable()) continue;
      Bytes key;
      key.put(endpoint.ip);
      key.put(endpoint.ip);
      key.put(port_.protocol);
      key.put_port(endpoint.port);
      add_shared(SetId::HairpinConnections, key);
    }
  }

  void add_shared(SetId set, const Bytes& key) { out_.shared.push_back({.set = set, .key = key}); }

  const PortPlan& port_;
  ServiceElements& out_;
  std::string_view comment_;
  uint64_t owner_;
};

}  // namespace

void Bytes::put(const net::IpAddr& ip) { append(ip.data(), ip.bits() / 8); }

void Bytes::put(net::Protocol protocol) {
  const std::array<uint8_t, 4> padded{number(protocol)};
  append(padded.data(), padded.size());
}

void Bytes::put_port(uint16_t port) {
  const std::array<uint16_t, 2> padded{htons(port), 0};
  append(padded.data(), sizeof padded);
}

void Bytes::put_mark(uint32_t mark) { append(&mark, sizeof mark); }

Bytes key_of(const FrontEnd& front) {
  Bytes key;
  if (!front.node_port) key.put(front.ip);
  key.put(front.protocol);
  key.put_port(front.port);
  return key;
}

size_t FrontEndHash::operator()(const FrontEnd& front) const noexcept {
  const std::string_view ip(reinterpret_cast<const char*>(front.ip.data()), 16);
  const size_t rest = static_cast<size_t>(front.port) << 3 |
                      static_cast<size_t>(front.protocol) << 1 |
                      static_cast<size_t>(front.node_port);
  return std::hash<std::string_view>{}(ip) ^ (rest * 0x9e3779b97f4a7c15);
}

uint64_t owner_of(std::string_view name, net::Protocol protocol) {
  return std::hash<std::string_view>{}(name) * 3 + static_cast<uint64_t>(protocol);
}

void ServiceElements::clear() {
  elements.clear();
  fronts.clear();
  shared.clear();
}

void render_service(const plan::ServicePlan& service, ServiceElements& out) {
  for (const auto& port : service.ports)
    PortRenderer(port, out).render();
}

std::vector<Element> render_node(const Options& options, std::span<const net::IpAddr> node_ports,
                                 std::span<const net::Cidr> service_cidrs) {
  std::vector<Element> elements;
  if (!options.node_ports_everywhere) {
    for (const auto& ip : node_ports) {
      Element element{.set = SetId::NodePortIps};
      element.key.put(ip);
      elements.push_back(element);
    }
  }
  for (const auto& block : without_nested(service_cidrs)) {
    if (block.family() != options.family) continue;
    Element element{.set = SetId::ServiceCidrs};
    element.key.put(block.base());
    element.key_end.put(last_of(block));
    elements.push_back(element);
  }
  return elements;
}

}  // namespace nftables
