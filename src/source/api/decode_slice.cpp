// discovery.k8s.io/v1 EndpointSlice. Field numbers as in k8s.io/api/discovery/v1/generated.proto.

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "source/api/decode_message.h"
#include "source/api/decode_object.h"
#include "source/names.h"
#include "source/trigger_time.h"

namespace source::api {

namespace {

constexpr std::string_view kServiceNameLabel = "kubernetes.io/service-name";
constexpr std::string_view kHeadlessLabel = "service.kubernetes.io/headless";

// As the API server limits a slice.
constexpr size_t kMaxEndpoints = 1000;
constexpr size_t kMaxPorts = 20000;

constexpr uint32_t kEndpoints = 2;
constexpr uint32_t kPorts = 3;
constexpr uint32_t kAddressType = 4;
constexpr uint32_t kForZones = 1;
constexpr uint32_t kForNodes = 2;

// What has to be known before the endpoints, though it stands behind them.
struct SliceFields {
  std::optional<std::string_view> address_type;
  size_t endpoints = 0;
  size_t ports = 0;
};

SliceFields read_slice(std::string_view message) {
  SliceFields fields;
  MessageReader reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case bytes_field(kEndpoints):
        ++fields.endpoints;
        reader.skip();
        break;
      case bytes_field(kPorts):
        ++fields.ports;
        reader.skip();
        break;
      case bytes_field(kAddressType):
        fields.address_type = reader.get_view();
        break;
      default:
        reader.skip();
    }
  }
  return fields;
}

bool too_many(size_t count, size_t most, const Place& place) {
  if (count <= most) return false;
  place.error("must have at most " + std::to_string(most) + " items, got " + std::to_string(count));
  return true;
}

std::optional<net::Family> address_family(const SliceFields& fields, const Place& root) {
  const Place place = root["addressType"];
  if (!fields.address_type) place.error("is missing");
  const auto type = one_of(place, fields.address_type.value_or(""), {"IPv4", "IPv6", "FQDN"});
  if (type == "FQDN") {
    place.warn("EndpointSlice address type not supported: FQDN");
    return std::nullopt;
  }
  return type == "IPv4" ? net::Family::V4 : net::Family::V6;
}

// kube-proxy ignores a port without number ("all ports").
void decode_port(std::vector<model::EndpointPort>& out, std::string_view message,
                 const Place& place) {
  std::string_view name_text;
  std::string_view protocol_text;
  int32_t number = 0;
  MessageReader reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case bytes_field(1):
        name_text = reader.get_view();
        break;
      case bytes_field(2):
        protocol_text = reader.get_view();
        break;
      case number_field(3):
        number = reader.get_int32();
        break;
      default:
        reader.skip();
    }
  }
  const Place name = place["name"];
  const Place protocol_place = place["protocol"];
  const Place port_place = place["port"];
  model::EndpointPort port;
  port.name = port_name(name, name_text);
  port.protocol = protocol(protocol_place, protocol_text);
  port.port = port_or_zero(port_place, number);
  if (port.port == 0) {
    port_place.warn("Ignoring invalid endpoint port");
    return;
  }
  out.push_back(std::move(port));
}

// As the API server has it. Repeated ports would multiply with the endpoints.
void check_distinct(const std::vector<model::EndpointPort>& ports, const Place& place) {
  if (ports.size() < 2) return;
  std::set<std::pair<std::string_view, net::Protocol>> seen;
  for (const auto& port : ports) {
    if (seen.emplace(port.name, port.protocol).second) continue;
    place.error("two ports have the name " + base::quote(port.name) + " and the same protocol");
    return;
  }
}

std::vector<model::EndpointPort> decode_ports(std::string_view object, const SliceFields& fields,
                                              const Place& root) {
  std::vector<model::EndpointPort> ports;
  const Place place = root["ports"];
  if (too_many(fields.ports, kMaxPorts, place)) return ports;
  ports.reserve(fields.ports);
  size_t index = 0;
  each_field(object, kPorts, [&](std::string_view message) {
    const Place element = place[index++];
    decode_port(ports, message, element);
  });
  check_distinct(ports, place);
  return ports;
}

// One message, read once: of the addresses, all are checked and the first one counts.
class EndpointFields {
 public:
  EndpointFields(std::string_view message, net::Family family, const Place& place)
      : family_(family), place_(place) {
    MessageReader reader(message);
    while (reader.next())
      read(reader);
    if (addresses_ == 0) {
      const Place addresses = place["addresses"];
      addresses.warn("Ignoring invalid endpoint port with empty address");
    }
  }

  std::optional<net::IpAddr> ip;
  std::string_view conditions;
  std::string_view hints;
  std::optional<std::string_view> node;

 private:
  void read(MessageReader& reader) {
    switch (reader.tag_and_type()) {
      case bytes_field(1):
        address(reader.get_view());
        break;
      case bytes_field(2):
        conditions = reader.get_view();
        break;
      case bytes_field(6):
        node = reader.get_view();
        break;
      case bytes_field(8):
        hints = reader.get_view();
        break;
      default:
        reader.skip();
    }
  }

  void address(std::string_view text) {
    const Place addresses = place_["addresses"];
    const Place element = addresses[addresses_++];
    const auto parsed = api::ip(element, text);
    if (!parsed) return;
    if (parsed->family() != family_) {
      element.error("must be an " + std::string(net::name(family_)) + " address, got " +
                    parsed->str());
    }
    if (!ip) ip = parsed;
  }

  net::Family family_;
  const Place& place_;
  size_t addresses_ = 0;
};

void decode_conditions(model::Endpoint& out, std::string_view message) {
  MessageReader reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case number_field(1):
        out.ready = reader.get_uint64() != 0;
        break;
      case number_field(2):
        out.serving = reader.get_uint64() != 0;
        break;
      case number_field(3):
        out.terminating = reader.get_uint64() != 0;
        break;
      default:
        reader.skip();
    }
  }
}

// ForZone and ForNode are {1: name}.
void decode_zone_hints(model::EndpointSlice& slice, Names& names, std::string_view hints,
                       const Place& place) {
  const auto endpoint = static_cast<uint32_t>(slice.endpoints.size() - 1);
  const Place zones = place["forZones"];
  size_t index = 0;
  each_field(hints, kForZones, [&](std::string_view message) {
    const Place element = zones[index++];
    const Place field = element["name"];
    const auto name = label_value(field, first_field(message, 1));
    if (name) slice.hints.push_back({endpoint, model::Hint::Kind::Zone, names.intern(*name)});
  });
}

void decode_node_hints(model::EndpointSlice& slice, Names& names, std::string_view hints,
                       const Place& place) {
  const auto endpoint = static_cast<uint32_t>(slice.endpoints.size() - 1);
  const Place nodes = place["forNodes"];
  size_t index = 0;
  each_field(hints, kForNodes, [&](std::string_view message) {
    const Place element = nodes[index++];
    const Place field = element["name"];
    const auto name = dns_subdomain(field, first_field(message, 1));
    if (name) slice.hints.push_back({endpoint, model::Hint::Kind::Node, names.intern(*name)});
  });
}

void decode_endpoint(model::EndpointSlice& slice, Names& names, std::string_view message,
                     const Place& place) {
  const EndpointFields fields(message, slice.family, place);
  if (!fields.ip) return;
  model::Endpoint endpoint;
  endpoint.ip = *fields.ip;
  decode_conditions(endpoint, fields.conditions);
  if (fields.node) {
    const Place node_name = place["nodeName"];
    endpoint.node = names.intern(dns_subdomain(node_name, *fields.node).value_or(""));
  }
  slice.endpoints.push_back(endpoint);
  if (fields.hints.empty()) return;
  const Place hints = place["hints"];
  decode_zone_hints(slice, names, fields.hints, hints);
  decode_node_hints(slice, names, fields.hints, hints);
}

// The name of the Service; nullopt if the slice is not for us.
std::optional<std::string_view> service_name(const Meta& meta, const Place& root) {
  if (meta.label(kHeadlessLabel)) return std::nullopt;
  const Place metadata = root["metadata"];
  const auto label = meta.label(kServiceNameLabel).value_or("");
  if (label.empty()) {
    metadata.warn("no kubernetes.io/service-name label set on endpoint slice: " +
                  std::string(meta.name));
    return std::nullopt;
  }
  const Place labels = metadata["labels"];
  const Place place = labels[kServiceNameLabel];
  return dns_label(place, label);
}

}  // namespace

std::shared_ptr<const model::EndpointSlice> decode_slice(std::string_view object, const Meta& meta,
                                                         model::ServiceKey key, const Place& root) {
  const auto service = service_name(meta, root);
  if (!service) return nullptr;
  const SliceFields fields = read_slice(object);
  const auto family = address_family(fields, root);
  const Place endpoints = root["endpoints"];
  if (!family || too_many(fields.endpoints, kMaxEndpoints, endpoints)) return nullptr;

  auto slice = std::make_shared<model::EndpointSlice>();
  slice->service = {std::move(key.ns), std::string(*service)};
  slice->name = std::move(key.name);
  slice->family = *family;
  slice->trigger_time = parse_trigger_time(meta.annotation(kTriggerTimeAnnotation).value_or(""));
  slice->ports = decode_ports(object, fields, root);
  slice->endpoints.reserve(fields.endpoints);
  Names names(*slice);
  size_t index = 0;
  each_field(object, kEndpoints, [&](std::string_view message) {
    const Place element = endpoints[index++];
    decode_endpoint(*slice, names, message, element);
  });
  return slice;
}

}  // namespace source::api
