// Decides what should happen to packets for one Service in one IP family on this node.
//
// Pure: values in, values out. Every backend renders a ServicePlan in its own words; every tool
// that explains a decision prints it. The rules are those of Kubernetes: traffic policies,
// readiness, terminating endpoints as a last resort, topology hints, source ranges.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/service_map.h"
#include "net/ip.h"

namespace plan {

// Why an endpoint is in or out of a list. Ready and LastResort are in, the others out.
enum class Reason : uint8_t {
  Ready,
  LastResort,   // terminating but serving, and no ready endpoint is left
  NotReady,     // neither ready nor (serving and terminating)
  Terminating,  // serving and terminating, while ready ones are there
  OtherZone,    // hints send this node's traffic to other endpoints
  OtherNode,
  Remote,    // only endpoints of this node are asked for
  NotAsked,  // no traffic of this Service uses the list
};
bool in_use(Reason reason);
// "ready", "last-resort", "not-ready", ...: for people.
std::string_view word(Reason reason);

// "ip:port" or "[ip]:port", kept in place: the longest has 47 characters.
class EndpointText {
 public:
  EndpointText() = default;
  EndpointText(const net::IpAddr& ip, uint16_t port);
  std::string_view view() const { return {text_.data(), size_}; }

 private:
  std::array<char, 47> text_{};
  uint8_t size_ = 0;
};

struct EndpointPlan {
  net::IpAddr ip;
  uint16_t port = 0;
  bool local = false;                    // on this node
  Reason cluster = Reason::NotAsked;     // for traffic that may go anywhere
  Reason node_local = Reason::NotAsked;  // for traffic that must stay on this node
  uint16_t weight = 1;                   // among the others, in mode ipvs
  EndpointText text;

  bool reachable() const { return in_use(cluster) || in_use(node_local); }
};

// Hints in force for the cluster list.
enum class Topology : uint8_t { None, SameZone, SameNode };

// What becomes of a packet that reached a front end of the port.
enum class Verdict : uint8_t {
  Cluster,  // to one of the endpoints in the cluster list
  Local,    // to one of the endpoints in the node-local list
  Reject,   // no endpoints at all: refuse
  Drop,     // policy Local and none on this node: be silent, a neighbour may have one
};

struct PortPlan {
  std::string name;       // "namespace/name:port", or "namespace/name" for an unnamed port
  std::string port_name;  // may be empty
  net::Protocol protocol = net::Protocol::Tcp;
  uint16_t port = 0;
  net::IpAddr cluster_ip;

  uint16_t node_port = 0;  // 0 = none
  std::vector<net::IpAddr> external_ips;
  std::vector<net::IpAddr> load_balancer_ips;
  std::vector<net::Cidr> source_ranges;  // empty = everybody may use the load-balancer IPs
  bool node_in_source_ranges = false;
  uint16_t health_check_node_port = 0;

  std::optional<uint32_t> affinity_timeout_s;
  bool internal_local = false;
  bool external_local = false;
  bool externally_accessible = false;

  bool has_endpoints = false;  // some endpoint, anywhere, could serve
  Topology topology = Topology::None;
  std::vector<EndpointPlan> endpoints;  // all of them, by their text in byte order
  uint32_t cluster_count = 0;           // how many are in the cluster list
  uint32_t local_count = 0;             // how many are in the node-local list

  bool uses_cluster() const { return !internal_local || externally_accessible; }
  bool uses_local() const { return internal_local || (external_local && externally_accessible); }
  Verdict internal_verdict() const;  // for the cluster IP
  Verdict external_verdict() const;  // for node port, load-balancer and external IPs
  bool restricted() const { return !load_balancer_ips.empty() && !source_ranges.empty(); }
};

struct ServicePlan {
  model::ServiceKey key;
  std::vector<PortPlan> ports;  // by name, then protocol; empty: nothing to proxy in this family
  std::string scheduler;        // of its own, in mode ipvs; empty: that of all
  std::vector<std::string>
      problems;                 // what annotations for mode ipvs ask for, and is not understood
  bool proxy_protocol = false;  // endpoints are told who the client is, in mode userspace
  std::string proxy_protocol_problem;  // if the annotation that asks for it is not understood

  size_t endpoint_count() const;
};

// What the decision depends on besides the Service itself.
struct Context {
  net::Family family = net::Family::V4;
  std::string node_name;
  std::string zone;          // empty: the node has no zone label
  net::IpAddr node_ip;       // of this family; loopback when undetermined
  bool external_ips = true;  // feature gate AllowServiceExternalIPs
};

// "namespace/name:port", or "namespace/name" for an unnamed port.
std::string port_name(const model::ServiceKey& key, const model::ServicePort& port);

ServicePlan compile_service(const model::ServiceEntry& entry, const Context& context);

// All Services with something to proxy, in order.
std::vector<ServicePlan> compile_all(const model::ServiceMap& services, const Context& context);
// The Services of these keys, in order; those that are gone or have nothing to proxy are there without ports.
std::vector<ServicePlan> compile_some(const model::ServiceMap& services,
                                      const std::set<model::ServiceKey>& keys,
                                      const Context& context);

}  // namespace plan
