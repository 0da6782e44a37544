#include "plan/flows.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace plan {
namespace {

using model::ServiceEntry;
using model::ServicePort;
using net::IpAddr;
using net::Protocol;

bool is_udp(const ServicePort& port) { return port.protocol == Protocol::Udp; }

}  // namespace

bool has_udp(const ServiceEntry& entry, const Context& context) {
  const auto& service = entry.service;
  return service != nullptr && service->skip == model::SkipReason::None &&
         service->cluster_ips[static_cast<size_t>(context.family)] &&
         std::ranges::any_of(service->ports, is_udp);
}

size_t FlowJudge::PlaceHash::operator()(const Place& place) const {
  constexpr size_t kOddNumber = 0x9e3779b97f4a7c15;  // spreads ports over all bits
  const std::string_view bytes(reinterpret_cast<const char*>(place.ip.data()),
                               static_cast<size_t>(place.ip.bits() / 8));
  return std::hash<std::string_view>()(bytes) ^ (place.port * kOddNumber);
}

FlowJudge::Places FlowJudge::endpoints_of(const ServiceEntry& entry, const ServicePort& port,
                                          Which which, net::Family family) {
  Places places;
  for (const auto& slice : entry.slices) {
    if (slice->family != family) continue;
    for (const auto& target : slice->ports) {
      if (target.name != port.name || target.protocol != port.protocol) continue;
      for (const auto& endpoint : slice->endpoints) {
        // Ready but not serving: an unready pod of a Service that publishes such addresses. It gets traffic.
        if (which == Which::All || endpoint.serving || endpoint.ready)
          places.push_back({endpoint.ip, target.port});
      }
    }
  }
  std::ranges::sort(places);
  return places;
}

FlowJudge::Places FlowJudge::front_ends_of(const model::Service& service, const ServicePort& port,
                                           const Context& context) {
  Places places{{*service.cluster_ips[static_cast<size_t>(context.family)], port.port}};
  const auto add = [&](const std::vector<IpAddr>& ips) {
    for (const auto& ip : ips) {
      if (ip.family() == context.family) places.push_back({ip, port.port});
    }
  };
  add(service.load_balancer_ips);
  if (context.external_ips) add(service.external_ips);
  if (port.node_port != 0) places.push_back({IpAddr(), port.node_port});
  return places;
}

void FlowJudge::add_current(const ServiceEntry& entry, const Context& context) {
  for (const auto& port : entry.service->ports) {
    if (!is_udp(port)) continue;
    const auto index = static_cast<uint32_t>(endpoints_.size());
    endpoints_.push_back(endpoints_of(entry, port, Which::Usable, context.family));
    for (const auto& place : front_ends_of(*entry.service, port, context))
      now_.emplace(place, index);
  }
}

void FlowJudge::add_gone(const ServiceEntry& entry, const Context& context) {
  for (const auto& port : entry.service->ports) {
    if (!is_udp(port)) continue;
    auto places = front_ends_of(*entry.service, port, context);
    std::erase_if(places, [&](const Place& place) { return now_.contains(place); });
    if (places.empty()) continue;
    const auto index = static_cast<uint32_t>(endpoints_.size());
    endpoints_.push_back(endpoints_of(entry, port, Which::All, context.family));
    for (const auto& place : places)
      gone_.emplace(place, index);
  }
}

FlowJudge::FlowJudge(const model::Snapshot* before, const model::Snapshot& now,
                     const Context& context, std::vector<IpAddr> local_addresses)
    : local_addresses_(std::move(local_addresses)) {
  std::ranges::sort(local_addresses_);
  now.services.for_each([&](const model::ServiceEntryPtr& entry) {
    if (has_udp(*entry, context)) add_current(*entry, context);
  });
  if (before == nullptr) return;
  before->services.for_each([&](const model::ServiceEntryPtr& entry) {
    // Unchanged Services are the same object in both snapshots.
    if (has_udp(*entry, context) && now.services.find(entry->key) != entry)
      add_gone(*entry, context);
  });
}

FlowJudge::FrontEnds::const_iterator FlowJudge::find(const FrontEnds& table,
                                                     const Place& destination) const {
  if (table.empty()) return table.end();
  const auto found = table.find(destination);
  if (found != table.end()) return found;
  const auto node_port = table.find({IpAddr(), destination.port});
  if (node_port == table.end()) return node_port;
  return std::ranges::binary_search(local_addresses_, destination.ip) ? node_port : table.end();
}

std::optional<FlowJudge::Behind> FlowJudge::look_behind(const FrontEnds& table,
                                                        const net::Flow& flow) const {
  const auto front_end = find(table, {flow.original.destination, flow.original.destination_port});
  if (front_end == table.end()) return std::nullopt;
  const Place answers{flow.reply.source, flow.reply.source_port};
  Behind behind;
  const auto [first, last] = table.equal_range(front_end->first);
  for (auto claim = first; claim != last; ++claim) {
    const auto& places = endpoints_[claim->second];
    behind.any = behind.any || !places.empty();
    behind.answers = behind.answers || std::ranges::binary_search(places, answers);
  }
  return behind;
}

bool FlowJudge::stale(const net::Flow& flow) const {
  if (flow.protocol != Protocol::Udp) return false;
  if (const auto behind = look_behind(now_, flow))
    return !behind->answers && (behind->any || flow.redirected());
  const auto behind = look_behind(gone_, flow);
  return behind && behind->answers && flow.redirected();
}

}  // namespace plan
