// Node and ServiceCIDR.

#include "base/text.h"
#include "source/checks.h"
#include "source/decode_object.h"

namespace source {

namespace {

constexpr std::string_view kZoneLabel = "topology.kubernetes.io/zone";

// All InternalIP, then all ExternalIP. Host names among the addresses, and what does not parse, are
// left out as kube-proxy does.
std::vector<net::IpAddr> node_addresses(const Field& addresses) {
  std::vector<net::IpAddr> internal;
  std::vector<net::IpAddr> external;
  addresses.each_object([&](const Field& element) {
    const Field type_field = element["type"];
    const Field address = element["address"];
    const auto type = type_field.text();
    const auto ip = net::IpAddr::parse(address.text().value_or(""));
    if (ip && type == "InternalIP") internal.push_back(*ip);
    if (ip && type == "ExternalIP") external.push_back(*ip);
  });
  internal.insert(internal.end(), external.begin(), external.end());
  return internal;
}

std::vector<net::Cidr> cidrs(const Field& field) {
  std::vector<net::Cidr> out;
  field.each([&](const Field& element) {
    if (const auto block = cidr(element)) out.push_back(*block);
  });
  return out;
}

// spec.podCIDRs, or what stands in its older single form.
std::vector<net::Cidr> pod_cidrs(const Field& spec) {
  const Field several = spec["podCIDRs"];
  const Field single = spec["podCIDR"];
  auto out = cidrs(several);
  if (several.size() > 0 || single.text().value_or("").empty()) return out;
  if (const auto block = cidr(single)) out.push_back(*block);
  return out;
}

}  // namespace

std::optional<Object> decode_node(const Field& root, std::string name) {
  const Field metadata = root.object("metadata");
  const Field labels = metadata.object("labels");
  const Field zone = labels[kZoneLabel];
  const Field deletion = metadata["deletionTimestamp"];
  const Field spec = root.object("spec");
  const Field taints = spec["taints"];
  const Field status = root.object("status");
  const Field addresses = status["addresses"];

  auto node = std::make_shared<model::Node>();
  node->name = std::move(name);
  node->zone = zone.text().value_or("");
  node->deleting = deletion.present();
  node->pod_cidrs = pod_cidrs(spec);
  node->addresses = node_addresses(addresses);
  taints.each_object([&](const Field& taint) {
    const Field key = taint["key"];
    if (const auto text = key.text()) node->taints.emplace_back(*text);
  });
  return Object{std::move(node), {}};
}

std::optional<Object> decode_service_cidr(const Field& root, std::string name) {
  const Field spec = root.object("spec");
  const Field blocks = spec["cidrs"];
  auto out = std::make_shared<model::ServiceCidr>();
  out->name = std::move(name);
  out->cidrs = cidrs(blocks);
  return Object{std::move(out), {}};
}

}  // namespace source
