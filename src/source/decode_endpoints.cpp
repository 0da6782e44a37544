// EndpointSlice, and the older Endpoints that becomes slices.

#include <array>
#include <set>
#include <utility>

#include "base/text.h"
#include "source/checks.h"
#include "source/decode_object.h"
#include "source/names.h"
#include "source/trigger_time.h"

namespace source {

namespace {

constexpr std::string_view kServiceNameLabel = "kubernetes.io/service-name";
constexpr std::string_view kHeadlessLabel = "service.kubernetes.io/headless";

// As the API server limits a slice.
constexpr size_t kMaxEndpoints = 1000;
constexpr size_t kMaxPorts = 20000;

bool too_many(const Field& field, size_t most) {
  if (field.size() <= most) return false;
  field.error("must have at most " + std::to_string(most) + " items, got " +
              std::to_string(field.size()));
  return true;
}

// The API server gives a port without name the name "" and one without protocol TCP; kube-proxy
// ignores a port without number ("all ports").
void decode_port(std::vector<model::EndpointPort>& out, const Field& field) {
  const Field name = field["name"];
  const Field protocol_field = field["protocol"];
  const Field port_field = field["port"];
  model::EndpointPort port;
  port.name = port_name(name);
  port.protocol = protocol(protocol_field);
  port.port = port_or_zero(port_field);
  if (port.port == 0) {
    port_field.warn("Ignoring invalid endpoint port");
    return;
  }
  out.push_back(std::move(port));
}

// As the API server has it. Repeated ports would multiply with the endpoints.
void check_distinct(const std::vector<model::EndpointPort>& ports, const Field& field) {
  std::set<std::pair<std::string_view, net::Protocol>> seen;
  for (const auto& port : ports) {
    if (seen.emplace(port.name, port.protocol).second) continue;
    field.error("two ports have the name " + base::quote(port.name) + " and the same protocol");
    return;
  }
}

std::vector<model::EndpointPort> decode_ports(const Field& object) {
  std::vector<model::EndpointPort> ports;
  const Field field = object["ports"];
  if (too_many(field, kMaxPorts)) return ports;
  field.each_object([&](const Field& port) { decode_port(ports, port); });
  check_distinct(ports, field);
  return ports;
}

// Only the first address counts, but all of them must be addresses of the slice's family.
std::optional<net::IpAddr> first_address(const Field& endpoint, net::Family family) {
  std::optional<net::IpAddr> first;
  const Field addresses = endpoint["addresses"];
  addresses.each([&](const Field& element) {
    const auto address = ip(element);
    if (!address) return;
    if (address->family() != family) {
      element.error("must be an " + std::string(net::name(family)) + " address, got " +
                    address->str());
    }
    if (!first) first = address;
  });
  if (addresses.size() == 0) {
    addresses.warn("Ignoring invalid endpoint port with empty address");
  }
  return first;
}

void decode_conditions(model::Endpoint& out, const Field& endpoint) {
  const Field conditions = endpoint.object("conditions");
  const Field ready = conditions["ready"];
  const Field serving = conditions["serving"];
  const Field terminating = conditions["terminating"];
  out.ready = ready.boolean().value_or(true);
  out.serving = serving.boolean().value_or(true);
  out.terminating = terminating.boolean().value_or(false);
}

void decode_hints(model::EndpointSlice& slice, Names& names, const Field& hints,
                  std::string_view list, model::Hint::Kind kind) {
  const Field elements = hints[list];
  elements.each_object([&](const Field& element) {
    const Field field = element["name"];
    const auto name = kind == model::Hint::Kind::Zone ? label_value(field) : dns_subdomain(field);
    if (!name) return;
    const auto endpoint = static_cast<uint32_t>(slice.endpoints.size() - 1);
    slice.hints.push_back({endpoint, kind, names.intern(*name)});
  });
}

void decode_endpoint(model::EndpointSlice& slice, Names& names, const Field& field) {
  const auto address = first_address(field, slice.family);
  const Field node_name = field["nodeName"];
  if (!address) return;
  model::Endpoint endpoint;
  endpoint.ip = *address;
  decode_conditions(endpoint, field);
  endpoint.node = names.intern(dns_subdomain(node_name).value_or(""));
  slice.endpoints.push_back(endpoint);
  const Field hints = field.object("hints");
  if (!hints.present()) return;
  decode_hints(slice, names, hints, "forZones", model::Hint::Kind::Zone);
  decode_hints(slice, names, hints, "forNodes", model::Hint::Kind::Node);
}

std::optional<net::Family> address_family(const Field& root) {
  const Field field = root["addressType"];
  if (!field.present()) field.error("is missing");
  const auto type = one_of(field, {"IPv4", "IPv6", "FQDN"});
  if (type == "FQDN") {
    field.warn("EndpointSlice address type not supported: FQDN");
    return std::nullopt;
  }
  return type == "IPv4" ? net::Family::V4 : net::Family::V6;
}

// One address of a subset of Endpoints, into the slice of its family.
class Subset {
 public:
  Subset(const model::ServiceKey& key, size_t index, std::vector<model::EndpointPort> ports)
      : key_(key), index_(index), ports_(std::move(ports)) {}

  void add(const Field& addresses, bool ready) {
    addresses.each_object([&](const Field& element) {
      const Field ip_field = element["ip"];
      const Field node_name = element["nodeName"];
      if (!ip_field.present()) ip_field.error("is missing");
      const auto address = ip(ip_field);
      if (!address) return;
      auto& [slice, names] = part(address->family());
      const auto node = names.intern(dns_subdomain(node_name).value_or(""));
      slice->endpoints.push_back(
          {.ip = *address, .ready = ready, .serving = ready, .terminating = false, .node = node});
    });
  }

  void move_to(std::vector<std::shared_ptr<const model::EndpointSlice>>& out) {
    for (auto& part : parts_) {
      if (part) out.push_back(std::move(part->slice));
    }
  }

 private:
  struct Part {
    std::shared_ptr<model::EndpointSlice> slice;
    Names names;
  };

  Part& part(net::Family family) {
    auto& part = parts_[static_cast<size_t>(family)];
    if (part) return *part;
    auto slice = std::make_shared<model::EndpointSlice>();
    slice->service = key_;
    slice->name = key_.name + "-endpoints-" + std::to_string(index_) +
                  (family == net::Family::V4 ? "-ipv4" : "-ipv6");
    slice->family = family;
    slice->ports = ports_;
    Names names(*slice);
    return part.emplace(Part{std::move(slice), std::move(names)});
  }

  const model::ServiceKey& key_;
  size_t index_;
  std::vector<model::EndpointPort> ports_;
  std::array<std::optional<Part>, 2> parts_;
};

TriggerTime decode_trigger_time(const Field& metadata) {
  const Field annotations = metadata.object("annotations");
  const Field annotation = annotations[kTriggerTimeAnnotation];
  return parse_trigger_time(annotation.text().value_or(""));
}

bool labelled_headless(const Field& labels) {
  const Field label = labels[kHeadlessLabel];
  return label.present();
}

}  // namespace

std::optional<Object> decode_slice(const Field& root, std::string ns, std::string name) {
  const Field metadata = root.object("metadata");
  const Field labels = metadata.object("labels");
  if (labelled_headless(labels)) return std::nullopt;
  const Field service_name = labels[kServiceNameLabel];
  if (const auto text = service_name.text().value_or(""); text.empty()) {
    metadata.warn("no kubernetes.io/service-name label set on endpoint slice: " + name);
    return std::nullopt;
  }
  const auto service = dns_label(service_name);
  const auto family = address_family(root);
  const Field endpoints = root["endpoints"];
  if (!service || !family || too_many(endpoints, kMaxEndpoints)) return std::nullopt;

  auto slice = std::make_shared<model::EndpointSlice>();
  slice->service = {std::move(ns), std::string(*service)};
  slice->name = std::move(name);
  slice->family = *family;
  slice->trigger_time = decode_trigger_time(metadata);
  slice->ports = decode_ports(root);
  slice->endpoints.reserve(endpoints.size());
  Names names(*slice);
  endpoints.each_object([&](const Field& field) { decode_endpoint(*slice, names, field); });
  return Object{std::move(slice), {}};
}

std::optional<Object> decode_endpoints(const Field& root, model::ServiceKey key) {
  const Field metadata = root.object("metadata");
  const Field labels = metadata.object("labels");
  if (labelled_headless(labels)) return std::nullopt;
  Endpoints out{std::move(key), {}};
  const Field subsets = root["subsets"];
  size_t index = 0;
  subsets.each_object([&](const Field& field) {
    const Field ready = field["addresses"];
    const Field not_ready = field["notReadyAddresses"];
    Subset subset(out.key, index++, decode_ports(field));
    subset.add(ready, true);
    subset.add(not_ready, false);
    subset.move_to(out.slices);
  });
  return Object{std::move(out), {}};
}

}  // namespace source
