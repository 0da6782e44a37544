// core/v1 Service. Field numbers as in k8s.io/api/core/v1/generated.proto.

#include <array>

#include "base/text.h"
#include "source/api/decode_message.h"
#include "source/api/decode_object.h"

namespace source::api {

namespace {

constexpr std::string_view kProxyNameLabel = "service.kubernetes.io/service-proxy-name";
constexpr std::string_view kNone = "None";
constexpr uint32_t kDefaultAffinityTimeout = 10800;
constexpr int64_t kMaxAffinityTimeout = 86400;
constexpr size_t kMaxPorts = 1000;  // check_distinct is quadratic

constexpr uint32_t kPorts = 1;
constexpr uint32_t kExternalIps = 5;
constexpr uint32_t kSourceRanges = 9;
constexpr uint32_t kClusterIps = 18;
constexpr uint32_t kIpFamilies = 19;

// ServiceSpec: what stands in it once, and how often the rest does.
struct Spec {
  std::string_view message;
  std::string_view cluster_ip;
  std::string_view type;
  std::string_view affinity;
  std::string_view affinity_config;
  std::string_view external_policy;
  std::string_view internal_policy;
  int32_t health_check_node_port = 0;
  size_t ports = 0;
  size_t cluster_ips = 0;
};

Spec read_spec(std::string_view message) {
  Spec spec;
  spec.message = message;
  MessageReader reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case bytes_field(3):
        spec.cluster_ip = reader.get_view();
        break;
      case bytes_field(4):
        spec.type = reader.get_view();
        break;
      case bytes_field(7):
        spec.affinity = reader.get_view();
        break;
      case bytes_field(11):
        spec.external_policy = reader.get_view();
        break;
      case number_field(12):
        spec.health_check_node_port = reader.get_int32();
        break;
      case bytes_field(14):
        spec.affinity_config = reader.get_view();
        break;
      case bytes_field(22):
        spec.internal_policy = reader.get_view();
        break;
      case bytes_field(kPorts):
        ++spec.ports;
        reader.skip();
        break;
      case bytes_field(kClusterIps):
        ++spec.cluster_ips;
        reader.skip();
        break;
      default:
        reader.skip();
    }
  }
  return spec;
}

model::ServiceType service_type(const Spec& spec, const Place& place) {
  const Place field = place["type"];
  const auto type =
      one_of(field, spec.type, {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"});
  if (type == "NodePort") return model::ServiceType::NodePort;
  if (type == "LoadBalancer") return model::ServiceType::LoadBalancer;
  if (type == "ExternalName") return model::ServiceType::ExternalName;
  return model::ServiceType::ClusterIp;
}

// The first cluster IP as written: spec.clusterIP, or the first of spec.clusterIPs.
std::string_view primary_cluster_ip(const Spec& spec, const Place& place) {
  const std::string_view first = first_field(spec.message, kClusterIps);
  if (spec.cluster_ip.empty()) return first;
  if (!first.empty() && spec.cluster_ip != first) {
    const Place several = place["clusterIPs"];
    several.error("the first must be the same as clusterIP");
  }
  return spec.cluster_ip;
}

// Order as kube-proxy's own: what its watch would not deliver, then what it leaves out itself.
model::SkipReason skip_reason(const Meta& meta, std::string_view cluster_ip,
                              model::ServiceType type) {
  if (meta.label(kProxyNameLabel)) return model::SkipReason::OtherProxy;
  if (cluster_ip == kNone) return model::SkipReason::Headless;
  if (cluster_ip.empty()) return model::SkipReason::NoClusterIp;
  if (type == model::ServiceType::ExternalName) return model::SkipReason::ExternalName;
  return model::SkipReason::None;
}

// Only two addresses can follow; more families are checked and left out.
using Families = std::array<std::optional<net::Family>, 2>;

Families ip_families(const Spec& spec, const Place& place) {
  Families families;
  const Place field = place["ipFamilies"];
  size_t index = 0;
  each_field(spec.message, kIpFamilies, [&](std::string_view text) {
    const Place element = field[index];
    const auto name = one_of(element, text, {"IPv4", "IPv6"});
    if (index < families.size()) {
      families[index] = name == "IPv4" ? net::Family::V4 : net::Family::V6;
    }
    ++index;
  });
  return families;
}

void set_cluster_ip(model::Service& service, std::string_view text, const Place& place,
                    std::optional<net::Family> expected) {
  const auto address = ip(place, text);
  if (!address) return;
  if (expected && address->family() != *expected) {
    place.warn("ipFamilies says " + std::string(net::name(*expected)) + " but the address is " +
               std::string(net::name(address->family())) + ", ignoring it");
    return;
  }
  auto& slot = service.cluster_ips[static_cast<size_t>(address->family())];
  if (slot) {
    place.error("a second " + std::string(net::name(address->family())) + " address");
  }
  slot = address;
}

// spec.clusterIPs[i] is of the family spec.ipFamilies[i]; where that says nothing, of its own.
void decode_cluster_ips(model::Service& service, const Spec& spec, const Place& place) {
  const auto families = ip_families(spec, place);
  if (spec.cluster_ips == 0) {
    const Place single = place["clusterIP"];
    set_cluster_ip(service, spec.cluster_ip, single, families[0]);
    return;
  }
  const Place several = place["clusterIPs"];
  if (spec.cluster_ips > families.size()) {
    several.error("must have at most 2 addresses");
    return;
  }
  size_t index = 0;
  each_field(spec.message, kClusterIps, [&](std::string_view text) {
    const Place element = several[index];
    set_cluster_ip(service, text, element, families[index]);
    ++index;
  });
}

// Two ports that kube-proxy could not tell apart would write the same chain or the same rule.
void check_distinct(const model::Service& service, const model::ServicePort& port,
                    const Place& place) {
  for (const auto& other : service.ports) {
    if (other.protocol != port.protocol) continue;
    if (other.name == port.name) {
      place.error("a second " + std::string(net::name(port.protocol)) + " port named " +
                  base::quote(port.name));
    } else if (other.port == port.port) {
      place.error("a second port " + std::to_string(port.port) + "/" +
                  std::string(net::name(port.protocol)));
    }
  }
}

struct PortFields {
  std::string_view name;
  std::string_view protocol;
  std::optional<int32_t> port;
  int32_t node_port = 0;
};

PortFields read_port(std::string_view message) {
  PortFields fields;
  MessageReader reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case bytes_field(1):
        fields.name = reader.get_view();
        break;
      case bytes_field(2):
        fields.protocol = reader.get_view();
        break;
      case number_field(3):
        fields.port = reader.get_int32();
        break;
      case number_field(5):
        fields.node_port = reader.get_int32();
        break;
      default:
        reader.skip();
    }
  }
  return fields;
}

void decode_port(model::Service& service, std::string_view message, const Place& place) {
  const PortFields fields = read_port(message);
  const Place name = place["name"];
  const Place protocol_place = place["protocol"];
  const Place port_place = place["port"];
  const Place node_port = place["nodePort"];
  if (!fields.port) port_place.error("is missing");
  model::ServicePort port;
  port.name = port_name(name, fields.name);
  port.protocol = protocol(protocol_place, fields.protocol);
  port.port = static_cast<uint16_t>(
      number_between(port_place, fields.port.value_or(0), 1, 65535).value_or(0));
  port.node_port = port_or_zero(node_port, fields.node_port);
  if (port.port != 0) check_distinct(service, port, place);
  service.ports.push_back(std::move(port));
}

void decode_ports(model::Service& service, const Spec& spec, const Place& place) {
  const Place ports = place["ports"];
  if (spec.ports > kMaxPorts) {
    ports.error("must have at most " + std::to_string(kMaxPorts) + " ports");
    return;
  }
  service.ports.reserve(spec.ports);
  each_field(spec.message, kPorts, [&](std::string_view message) {
    const Place element = ports[service.ports.size()];
    decode_port(service, message, element);
  });
}

void add_ip_or_warn(std::vector<net::IpAddr>& out, std::string_view text, const Place& place) {
  if (base::trim(text).empty()) return;
  if (const auto address = net::IpAddr::parse(text)) {
    out.push_back(*address);
  } else {
    place.warn("Skipping invalid IP " + base::quote(text.substr(0, 80)));
  }
}

void decode_external_ips(model::Service& service, const Spec& spec, const Place& place) {
  const Place external_ips = place["externalIPs"];
  size_t index = 0;
  each_field(spec.message, kExternalIps, [&](std::string_view text) {
    const Place element = external_ips[index++];
    add_ip_or_warn(service.external_ips, text, element);
  });
}

// {1: ip, 3: ipMode}
void decode_ingress(model::Service& service, std::string_view object, const Place& root) {
  const Place status = root["status"];
  const Place load_balancer = status["loadBalancer"];
  const Place ingress = load_balancer["ingress"];
  size_t index = 0;
  each_field(first_field(first_field(object, 3), 1), 1, [&](std::string_view message) {
    const Place element = ingress[index++];
    const Place mode = element["ipMode"];
    const Place address = element["ip"];
    if (one_of(mode, first_field(message, 3), {"VIP", "Proxy"}) == "VIP") {
      add_ip_or_warn(service.load_balancer_ips, first_field(message, 1), address);
    }
  });
}

void decode_source_ranges(model::Service& service, const Spec& spec, const Place& place) {
  const Place ranges = place["loadBalancerSourceRanges"];
  size_t index = 0;
  each_field(spec.message, kSourceRanges, [&](std::string_view text) {
    const Place range = ranges[index++];
    if (const auto block = net::Cidr::parse(base::trim(text))) {
      service.source_ranges.push_back(*block);
    } else {
      range.warn("Invalid CIDR ignored " + base::quote(text.substr(0, 80)));
    }
  });
}

// SessionAffinityConfig{1: ClientIPConfig{1: timeoutSeconds}}
std::optional<uint32_t> affinity_timeout(const Spec& spec, const Place& place) {
  const Place affinity = place["sessionAffinity"];
  if (one_of(affinity, spec.affinity, {"None", "ClientIP"}) == "None") return std::nullopt;
  const Place config = place["sessionAffinityConfig"];
  const Place client_ip = config["clientIP"];
  const Place timeout = client_ip["timeoutSeconds"];
  MessageReader reader(first_field(spec.affinity_config, 1));
  if (!reader.next(1, protozero::pbf_wire_type::varint)) return kDefaultAffinityTimeout;
  const auto seconds = number_between(timeout, reader.get_int32(), 1, kMaxAffinityTimeout);
  return static_cast<uint32_t>(seconds.value_or(kDefaultAffinityTimeout));
}

void decode_policies(model::Service& service, const Spec& spec, const Place& place) {
  const Place external = place["externalTrafficPolicy"];
  const Place internal = place["internalTrafficPolicy"];
  const Place health_check = place["healthCheckNodePort"];
  service.affinity_timeout_s = affinity_timeout(spec, place);
  service.external_policy_local =
      one_of(external, spec.external_policy, {"Cluster", "Local"}) == "Local";
  service.internal_policy_local =
      one_of(internal, spec.internal_policy, {"Cluster", "Local"}) == "Local";
  service.health_check_node_port = port_or_zero(health_check, spec.health_check_node_port);
  if (service.type == model::ServiceType::LoadBalancer && service.external_policy_local &&
      service.health_check_node_port == 0) {
    health_check.warn("Service has no healthcheck nodeport");
  }
}

}  // namespace

std::shared_ptr<const model::Service> decode_service(std::string_view object, const Meta& meta,
                                                     model::ServiceKey key, const Place& root) {
  const Spec spec = read_spec(first_field(object, 2));
  const Place place = root["spec"];
  auto service = std::make_shared<model::Service>();
  service->key = std::move(key);
  service->type = service_type(spec, place);
  const std::string_view cluster_ip = primary_cluster_ip(spec, place);
  service->skip = skip_reason(meta, cluster_ip, service->type);
  if (!cluster_ip.empty() && cluster_ip != kNone) decode_cluster_ips(*service, spec, place);
  decode_ports(*service, spec, place);
  decode_external_ips(*service, spec, place);
  decode_ingress(*service, object, root);
  decode_source_ranges(*service, spec, place);
  decode_policies(*service, spec, place);
  service->ipvs_scheduler = meta.annotation(model::kIpvsSchedulerAnnotation).value_or("");
  service->ipvs_weights = meta.annotation(model::kIpvsWeightsAnnotation).value_or("");
  service->proxy_protocol = meta.annotation(model::kUserspaceProxyProtocolAnnotation).value_or("");
  return service;
}

}  // namespace source::api
