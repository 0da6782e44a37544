#include "backend/userspace/flows.h"

#include <algorithm>
#include <string_view>

namespace userspace {

size_t PortalFlows::PlaceHash::operator()(const Place& place) const {
  const std::string_view bytes(reinterpret_cast<const char*>(place.ip.data()),
                               static_cast<size_t>(place.ip.bits()) / 8);
  return std::hash<std::string_view>{}(bytes) * 31 + place.port;
}

void PortalFlows::add(Table& table, const Portal& portal) {
  if (portal.protocol == net::Protocol::Udp)
    table.emplace(Place{portal.ip, portal.port}, portal.proxy_port);
}

PortalFlows::Found PortalFlows::find(const Table& table, const net::Flow& flow) const {
  Found found;
  const auto look_at = [&](const Place& place) {
    const auto [begin, end] = table.equal_range(place);
    for (auto it = begin; it != end; ++it)
      found = {true, found.leads_there || it->second == flow.reply.source_port};
  };
  look_at({flow.original.destination, flow.original.destination_port});
  if (std::ranges::binary_search(node_, flow.original.destination))
    look_at({{}, flow.original.destination_port});
  return found;
}

bool PortalFlows::stale(const net::Flow& flow) const {
  const Found now = find(current_, flow);
  return now.any ? !now.leads_there : find(gone_, flow).leads_there;
}

}  // namespace userspace
