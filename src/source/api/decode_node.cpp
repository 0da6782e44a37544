// core/v1 Node and networking.k8s.io/v1 ServiceCIDR. Field numbers as in their generated.proto.

#include "source/api/decode_message.h"
#include "source/api/decode_object.h"

namespace source::api {

namespace {

constexpr std::string_view kZoneLabel = "topology.kubernetes.io/zone";

constexpr uint32_t kPodCidr = 1;
constexpr uint32_t kTaints = 5;
constexpr uint32_t kPodCidrs = 7;
constexpr uint32_t kAddresses = 5;

// All InternalIP, then all ExternalIP. Host names among the addresses, and what does not parse, are
// left out as kube-proxy does. NodeAddress is {1: type, 2: address}.
std::vector<net::IpAddr> node_addresses(std::string_view status) {
  std::vector<net::IpAddr> internal;
  std::vector<net::IpAddr> external;
  each_field(status, kAddresses, [&](std::string_view message) {
    const auto type = first_field(message, 1);
    const auto address = net::IpAddr::parse(first_field(message, 2));
    if (address && type == "InternalIP") internal.push_back(*address);
    if (address && type == "ExternalIP") external.push_back(*address);
  });
  internal.insert(internal.end(), external.begin(), external.end());
  return internal;
}

std::vector<net::Cidr> cidrs(std::string_view message, uint32_t field, const Place& place) {
  std::vector<net::Cidr> out;
  size_t index = 0;
  each_field(message, field, [&](std::string_view text) {
    const Place element = place[index++];
    if (const auto block = cidr(element, text)) out.push_back(*block);
  });
  return out;
}

// spec.podCIDRs, or what stands in its older single form.
std::vector<net::Cidr> pod_cidrs(std::string_view spec, const Place& place) {
  const Place several = place["podCIDRs"];
  const Place single = place["podCIDR"];
  auto out = cidrs(spec, kPodCidrs, several);
  const std::string_view text = first_field(spec, kPodCidr);
  if (count_fields(spec, kPodCidrs) > 0 || text.empty()) return out;
  if (const auto block = cidr(single, text)) out.push_back(*block);
  return out;
}

}  // namespace

std::shared_ptr<const model::Node> decode_node(std::string_view object, const Meta& meta,
                                               std::string name, const Place& root) {
  const std::string_view spec = first_field(object, 2);
  const Place place = root["spec"];
  auto node = std::make_shared<model::Node>();
  node->name = std::move(name);
  node->zone = meta.label(kZoneLabel).value_or("");
  node->deleting = meta.deleting;
  node->pod_cidrs = pod_cidrs(spec, place);
  node->addresses = node_addresses(first_field(object, 3));
  each_field(spec, kTaints,
             [&](std::string_view taint) { node->taints.emplace_back(first_field(taint, 1)); });
  return node;
}

std::shared_ptr<const model::ServiceCidr> decode_service_cidr(std::string_view object,
                                                              std::string name, const Place& root) {
  const Place spec = root["spec"];
  const Place blocks = spec["cidrs"];
  auto out = std::make_shared<model::ServiceCidr>();
  out->name = std::move(name);
  out->cidrs = cidrs(first_field(object, 2), 1, blocks);
  return out;
}

}  // namespace source::api
