// The Kubernetes objects that a service proxy needs, reduced to the fields that it reads.
//
// All are plain values. A source makes them (from YAML, JSON or the API's protobuf); once they are
// in a Snapshot they never change. Names, addresses and ports are checked by the source: whatever
// is in here is safe to write into a rule.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/ip.h"

namespace model {

// Namespace and name of a Service; orders as the rules do: by namespace, then by name.
struct ServiceKey {
  std::string ns;
  std::string name;

  // "namespace/name"
  std::string str() const { return ns + "/" + name; }
  auto operator<=>(const ServiceKey&) const = default;
  bool operator==(const ServiceKey&) const = default;
};

struct ServicePort {
  std::string name;  // may be empty
  net::Protocol protocol = net::Protocol::Tcp;
  uint16_t port = 0;
  uint16_t node_port = 0;  // 0 = none

  bool operator==(const ServicePort&) const = default;
};

enum class ServiceType : uint8_t { ClusterIp, NodePort, LoadBalancer, ExternalName };

// Why a Service is not proxied at all (in either family).
enum class SkipReason : uint8_t {
  None,
  Headless,      // spec.clusterIP is None
  NoClusterIp,   // spec.clusterIP is empty
  ExternalName,  // spec.type is ExternalName
  OtherProxy,    // label service.kubernetes.io/service-proxy-name
};

// Annotations of a Service that only mode ipvs heeds. The API knows nothing of them.
inline constexpr std::string_view kIpvsSchedulerAnnotation = "ipvs.kube-proxy/scheduler";
inline constexpr std::string_view kIpvsWeightsAnnotation = "ipvs.kube-proxy/weights";
// The same for mode userspace.
inline constexpr std::string_view kUserspaceProxyProtocolAnnotation =
    "userspace.kube-proxy/proxy-protocol";

struct Service {
  ServiceKey key;
  ServiceType type = ServiceType::ClusterIp;
  SkipReason skip = SkipReason::None;
  // By family: [V4], [V6].
  std::array<std::optional<net::IpAddr>, 2> cluster_ips;
  std::vector<ServicePort> ports;
  std::vector<net::IpAddr> external_ips;       // both families, in the object's order
  std::vector<net::IpAddr> load_balancer_ips;  // ipMode VIP only
  std::vector<net::Cidr> source_ranges;        // both families, /0 entries included
  std::optional<uint32_t> affinity_timeout_s;  // sessionAffinity: ClientIP
  bool external_policy_local = false;          // spec.externalTrafficPolicy, as written
  bool internal_policy_local = false;
  uint16_t health_check_node_port = 0;  // as written
  // Annotations, as written: any text, which is understood by the plan. Empty: not there.
  std::string ipvs_scheduler;
  std::string ipvs_weights;
  std::string proxy_protocol;

  bool operator==(const Service&) const = default;
};

// A piece of EndpointSlice::text.
struct TextRef {
  uint32_t offset = 0;
  uint32_t size = 0;

  bool operator==(const TextRef&) const = default;
};

struct Endpoint {
  net::IpAddr ip;
  bool ready = true;
  bool serving = true;
  bool terminating = false;
  TextRef node;  // empty = not bound to a node

  bool operator==(const Endpoint&) const = default;
};

// hints.forZones or hints.forNodes of one endpoint.
struct Hint {
  enum class Kind : uint8_t { Zone, Node };
  uint32_t endpoint = 0;  // index into EndpointSlice::endpoints
  Kind kind = Kind::Zone;
  TextRef name;

  bool operator==(const Hint&) const = default;
};

struct EndpointPort {
  std::string name;  // may be empty
  net::Protocol protocol = net::Protocol::Tcp;
  uint16_t port = 0;

  bool operator==(const EndpointPort&) const = default;
};

// Endpoints repeat few node and zone names many times: all of them stand in `text` once.
struct EndpointSlice {
  ServiceKey service;  // namespace of the slice, label kubernetes.io/service-name
  std::string name;
  net::Family family = net::Family::V4;
  std::vector<EndpointPort> ports;
  std::vector<Endpoint> endpoints;
  std::vector<Hint> hints;  // ordered by endpoint; usually empty
  std::string text;
  // Annotation endpoints.kubernetes.io/last-change-trigger-time: when the change happened that this
  // version tells of. The epoch: not said.
  std::chrono::sys_time<std::chrono::nanoseconds> trigger_time{};

  std::string_view view(TextRef ref) const {
    return std::string_view(text).substr(ref.offset, ref.size);
  }

  bool operator==(const EndpointSlice&) const = default;
};

struct Node {
  std::string name;
  std::string zone;                    // label topology.kubernetes.io/zone
  std::vector<net::IpAddr> addresses;  // InternalIP first, then ExternalIP
  std::vector<net::Cidr> pod_cidrs;
  bool deleting = false;            // metadata.deletionTimestamp is set
  std::vector<std::string> taints;  // their keys

  bool operator==(const Node&) const = default;
};

struct ServiceCidr {
  std::string name;
  std::vector<net::Cidr> cidrs;

  bool operator==(const ServiceCidr&) const = default;
};

}  // namespace model
