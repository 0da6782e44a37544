#include <algorithm>

#include "base/text.h"
#include "source/checks.h"
#include "source/decode_object.h"

namespace source {

namespace {

constexpr std::string_view kProxyNameLabel = "service.kubernetes.io/service-proxy-name";
constexpr std::string_view kNone = "None";
constexpr int64_t kDefaultAffinityTimeout = 10800;
constexpr int64_t kMaxAffinityTimeout = 86400;

model::ServiceType service_type(const Field& spec) {
  const Field field = spec["type"];
  const auto type = one_of(field, {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"});
  if (type == "NodePort") return model::ServiceType::NodePort;
  if (type == "LoadBalancer") return model::ServiceType::LoadBalancer;
  if (type == "ExternalName") return model::ServiceType::ExternalName;
  return model::ServiceType::ClusterIp;
}

// The first cluster IP as written: spec.clusterIP, or the first of spec.clusterIPs.
std::string_view primary_cluster_ip(const Field& spec) {
  const Field single = spec["clusterIP"];
  const Field several = spec["clusterIPs"];
  const std::string_view from_single = single.text().value_or("");
  std::string_view from_several;
  if (several.size() > 0) {
    const std::string* first = several.value().as_array()->front().as_string();
    if (first != nullptr) from_several = *first;
  }
  if (from_single.empty()) return from_several;
  if (!from_several.empty() && from_single != from_several) {
    several.error("the first must be the same as clusterIP");
  }
  return from_single;
}

// Order as kube-proxy's own: what its watch would not deliver, then what it leaves out itself.
model::SkipReason skip_reason(const Field& labels, std::string_view cluster_ip,
                              model::ServiceType type) {
  if (const Field label = labels[kProxyNameLabel]; label.present()) {
    return model::SkipReason::OtherProxy;
  }
  if (cluster_ip == kNone) return model::SkipReason::Headless;
  if (cluster_ip.empty()) return model::SkipReason::NoClusterIp;
  if (type == model::ServiceType::ExternalName) return model::SkipReason::ExternalName;
  return model::SkipReason::None;
}

std::vector<net::Family> ip_families(const Field& spec) {
  std::vector<net::Family> families;
  const Field field = spec["ipFamilies"];
  field.each([&](const Field& element) {
    const auto name = one_of(element, {"IPv4", "IPv6"});
    families.push_back(name == "IPv4" ? net::Family::V4 : net::Family::V6);
  });
  return families;
}

void set_cluster_ip(model::Service& service, const Field& field,
                    std::optional<net::Family> expected) {
  const auto address = ip(field);
  if (!address) return;
  if (expected && address->family() != *expected) {
    field.warn("ipFamilies says " + std::string(net::name(*expected)) + " but the address is " +
               std::string(net::name(address->family())) + ", ignoring it");
    return;
  }
  auto& slot = service.cluster_ips[static_cast<size_t>(address->family())];
  if (slot) {
    field.error("a second " + std::string(net::name(address->family())) + " address");
  }
  slot = address;
}

// spec.clusterIPs[i] is of the family spec.ipFamilies[i]; where that says nothing, of its own.
void decode_cluster_ips(model::Service& service, const Field& spec) {
  const auto families = ip_families(spec);
  const Field several = spec["clusterIPs"];
  const Field single = spec["clusterIP"];
  if (several.size() == 0) {
    set_cluster_ip(service, single,
                   families.empty() ? std::nullopt : std::optional(families.front()));
    return;
  }
  if (several.size() > 2) {
    several.error("must have at most 2 addresses");
    return;
  }
  size_t index = 0;
  several.each([&](const Field& element) {
    const auto expected = index < families.size() ? std::optional(families[index]) : std::nullopt;
    set_cluster_ip(service, element, expected);
    ++index;
  });
}

// Two ports that kube-proxy could not tell apart would write the same chain or the same rule.
void check_distinct(const model::Service& service, const model::ServicePort& port,
                    const Field& field) {
  for (const auto& other : service.ports) {
    if (other.protocol != port.protocol) continue;
    if (other.name == port.name) {
      field.error("a second " + std::string(net::name(port.protocol)) + " port named " +
                  base::quote(port.name));
    } else if (other.port == port.port) {
      field.error("a second port " + std::to_string(port.port) + "/" +
                  std::string(net::name(port.protocol)));
    }
  }
}

void decode_port(model::Service& service, const Field& field) {
  const Field name = field["name"];
  const Field protocol_field = field["protocol"];
  const Field port_field = field["port"];
  const Field node_port = field["nodePort"];
  if (!port_field.present()) port_field.error("is missing");
  model::ServicePort port;
  port.name = port_name(name);
  port.protocol = protocol(protocol_field);
  port.port = static_cast<uint16_t>(port_field.number(1, 65535).value_or(0));
  port.node_port = port_or_zero(node_port);
  if (port.port != 0) check_distinct(service, port, field);
  service.ports.push_back(std::move(port));
}

void decode_ports(model::Service& service, const Field& spec) {
  constexpr size_t kMaxPorts = 1000;  // check_distinct is quadratic
  const Field ports = spec["ports"];
  if (ports.size() > kMaxPorts) {
    ports.error("must have at most " + std::to_string(kMaxPorts) + " ports");
    return;
  }
  ports.each_object([&](const Field& port) { decode_port(service, port); });
}

void add_ip_or_warn(std::vector<net::IpAddr>& out, const Field& field) {
  const auto text = field.text();
  if (!text || base::trim(*text).empty()) return;
  if (const auto address = net::IpAddr::parse(*text)) {
    out.push_back(*address);
  } else {
    field.warn("Skipping invalid IP " + base::quote(text->substr(0, 80)));
  }
}

void decode_source_ranges(model::Service& service, const Field& spec) {
  const Field ranges = spec["loadBalancerSourceRanges"];
  ranges.each([&](const Field& range) {
    const auto text = range.text();
    if (!text) return;
    if (const auto cidr = net::Cidr::parse(base::trim(*text))) {
      service.source_ranges.push_back(*cidr);
    } else {
      range.warn("Invalid CIDR ignored " + base::quote(text->substr(0, 80)));
    }
  });
}

void decode_ingress(model::Service& service, const Field& root) {
  const Field status = root.object("status");
  const Field load_balancer = status.object("loadBalancer");
  const Field ingress = load_balancer["ingress"];
  ingress.each_object([&](const Field& element) {
    const Field mode = element["ipMode"];
    const Field address = element["ip"];
    if (one_of(mode, {"VIP", "Proxy"}) == "VIP") add_ip_or_warn(service.load_balancer_ips, address);
  });
}

std::optional<uint32_t> affinity_timeout(const Field& spec) {
  const Field affinity = spec["sessionAffinity"];
  const Field config = spec.object("sessionAffinityConfig");
  const Field client_ip = config.object("clientIP");
  const Field timeout = client_ip["timeoutSeconds"];
  if (one_of(affinity, {"None", "ClientIP"}) == "None") return std::nullopt;
  return static_cast<uint32_t>(
      timeout.number(1, kMaxAffinityTimeout).value_or(kDefaultAffinityTimeout));
}

void decode_policies(model::Service& service, const Field& spec) {
  const Field external = spec["externalTrafficPolicy"];
  const Field internal = spec["internalTrafficPolicy"];
  const Field health_check = spec["healthCheckNodePort"];
  service.affinity_timeout_s = affinity_timeout(spec);
  service.external_policy_local = one_of(external, {"Cluster", "Local"}) == "Local";
  service.internal_policy_local = one_of(internal, {"Cluster", "Local"}) == "Local";
  service.health_check_node_port = port_or_zero(health_check);
  if (service.type == model::ServiceType::LoadBalancer && service.external_policy_local &&
      service.health_check_node_port == 0) {
    health_check.warn("Service has no healthcheck nodeport");
  }
}

void decode_annotations(model::Service& service, const Field& metadata) {
  const Field annotations = metadata.object("annotations");
  const Field scheduler = annotations[model::kIpvsSchedulerAnnotation];
  const Field weights = annotations[model::kIpvsWeightsAnnotation];
  const Field proxy_protocol = annotations[model::kUserspaceProxyProtocolAnnotation];
  service.ipvs_scheduler = scheduler.text().value_or("");
  service.ipvs_weights = weights.text().value_or("");
  service.proxy_protocol = proxy_protocol.text().value_or("");
}

}  // namespace

std::optional<Object> decode_service(const Field& root, model::ServiceKey key) {
  const Field metadata = root.object("metadata");
  const Field labels = metadata.object("labels");
  const Field spec = root.object("spec");
  const Field external_ips = spec["externalIPs"];
  auto service = std::make_shared<model::Service>();
  service->key = std::move(key);
  service->type = service_type(spec);
  const std::string_view cluster_ip = primary_cluster_ip(spec);
  service->skip = skip_reason(labels, cluster_ip, service->type);
  if (!cluster_ip.empty() && cluster_ip != kNone) decode_cluster_ips(*service, spec);
  decode_ports(*service, spec);
  external_ips.each([&](const Field& ip) { add_ip_or_warn(service->external_ips, ip); });
  decode_ingress(*service, root);
  decode_source_ranges(*service, spec);
  decode_policies(*service, spec);
  decode_annotations(*service, metadata);
  return Object{std::move(service), {}};
}

}  // namespace source
