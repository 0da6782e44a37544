// Any bytes as a manifest: no crash, and whatever object comes out is safe to write into a rule.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "codec/document.h"
#include "source/checks.h"
#include "source/decode.h"
#include "source/merge.h"

namespace {

void check(const model::ServiceKey& key) {
  CHECK(source::is_dns_label(key.ns) && source::is_dns_label(key.name));
}

bool is_port_name(const std::string& name) { return name.empty() || source::is_dns_label(name); }

struct Check {
  void operator()(const std::shared_ptr<const model::Service>& service) const {
    check(service->key);
    for (const auto& port : service->ports)
      CHECK(is_port_name(port.name) && port.port != 0);
    for (const auto family : net::kFamilies) {
      const auto& ip = service->cluster_ips[static_cast<size_t>(family)];
      CHECK(!ip || ip->family() == family);
    }
    const auto timeout = service->affinity_timeout_s.value_or(1);
    CHECK(timeout >= 1 && timeout <= 86400);
  }
  void operator()(const std::shared_ptr<const model::EndpointSlice>& slice) const {
    check(slice->service);
    CHECK(slice->name.find_first_of(" \"\n") == std::string::npos);
    for (const auto& port : slice->ports)
      CHECK(is_port_name(port.name) && port.port != 0);
    for (const auto& endpoint : slice->endpoints) {
      CHECK(endpoint.ip.family() == slice->family);
      CHECK(endpoint.node.size == 0 || source::is_dns_subdomain(slice->view(endpoint.node)));
    }
    for (const auto& hint : slice->hints)
      CHECK(hint.endpoint < slice->endpoints.size());
  }
  void operator()(const std::shared_ptr<const model::Node>& node) const {
    CHECK(source::is_dns_subdomain(node->name));
  }
  void operator()(const std::shared_ptr<const model::ServiceCidr>& cidr) const {
    CHECK(source::is_dns_subdomain(cidr->name));
  }
  void operator()(const source::Endpoints& endpoints) const {
    check(endpoints.key);
    for (const auto& slice : endpoints.slices)
      (*this)(slice);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  source::Decoded decoded;
  const auto end = codec::parse_stream(text,
                                       [&](const codec::Value& document) -> base::Result<> {
                                         source::decode(document, decoded);
                                         return {};
                                       },
                                       {.nodes = 20'000, .depth = 100});
  if (!end) CHECK(end.error().text.starts_with("line "));
  for (const auto& object : decoded.objects)
    std::visit(Check{}, object.any);

  // The same objects once more are no change; none at all takes each of them away.
  source::Merge merge;
  const auto first = merge.update({{"a.yaml", decoded.objects}});
  CHECK(first.changes.size() <= 3 * size);
  CHECK(merge.update({{"a.yaml", decoded.objects}}).changes.empty());
  CHECK(merge.update({{"a.yaml", {}}}).changes.size() == first.changes.size());
  return 0;
}
