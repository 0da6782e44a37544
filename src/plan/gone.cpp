#include "plan/gone.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "base/check.h"

namespace plan {
namespace {

using model::ServiceEntry;
using model::ServiceMap;

void append_if_different(std::vector<EntryChange>& out, EntryChange change) {
  if (change.before != change.now) out.push_back(std::move(change));
}

bool proxied(const ServiceEntry& entry) {
  return entry.service != nullptr && entry.service->skip == model::SkipReason::None;
}

template <typename Visit>
void for_each_endpoint(const ServiceEntry* entry, net::Family family, Visit&& visit) {
  if (entry == nullptr || !proxied(*entry)) return;
  for (const auto& slice : entry->slices) {
    if (slice->family != family) continue;
    for (const auto& port : slice->ports) {
      if (port.protocol != net::Protocol::Tcp) continue;
      for (const auto& endpoint : slice->endpoints)
        visit(TcpEnd{endpoint.ip, port.port});
    }
  }
}

}  // namespace

size_t TcpEndHash::operator()(const TcpEnd& end) const noexcept {
  const std::string_view bytes(reinterpret_cast<const char*>(end.ip.data()),
                               static_cast<size_t>(end.ip.bits()) / 8);
  return std::hash<std::string_view>{}(bytes) * 31 + end.port;
}

std::vector<EntryChange> changes(const ServiceMap& before, const ServiceMap& now,
                                 const std::set<model::ServiceKey>& among) {
  std::vector<EntryChange> found;
  for (const auto& key : among)
    append_if_different(found, {before.find(key), now.find(key)});
  return found;
}

std::vector<EntryChange> changes(const ServiceMap& before, const ServiceMap& now) {
  std::vector<EntryChange> found;
  now.for_each(
      [&](const auto& entry) { append_if_different(found, {before.find(entry->key), entry}); });
  before.for_each([&](const auto& entry) {
    if (now.find(entry->key) == nullptr) found.push_back({entry, nullptr});
  });
  return found;
}

std::vector<TcpEnd> EndpointUses::update(const std::vector<EntryChange>& changes) {
  // All that is new first: an endpoint that moves from one Service to another is never gone.
  for (const auto& change : changes)
    for_each_endpoint(change.now.get(), family_, [&](const TcpEnd& end) { ++counts_[end]; });
  std::vector<TcpEnd> gone;
  for (const auto& change : changes) {
    for_each_endpoint(change.before.get(), family_, [&](const TcpEnd& end) {
      const auto found = counts_.find(end);
      CHECK(found != counts_.end());
      if (--found->second > 0) return;
      counts_.erase(found);
      gone.push_back(end);
    });
  }
  return gone;
}

void FrontEnds::add(const ServiceEntry& entry) {
  if (!proxied(entry)) return;
  const auto& service = *entry.service;
  for (const auto& port : service.ports) {
    if (port.protocol != net::Protocol::Tcp) continue;
    if (port.node_port != 0) node_ports_.insert(port.node_port);
    for (const auto& ip : service.cluster_ips)
      if (ip) addresses_.insert({*ip, port.port});
    for (const auto* ips : {&service.external_ips, &service.load_balancer_ips})
      for (const auto& ip : *ips)
        addresses_.insert({ip, port.port});
  }
}

bool FrontEnds::redirected(const net::Flow& flow, std::span<const net::IpAddr> here) const {
  const net::IpAddr& to = flow.original.destination;
  const uint16_t port = flow.original.destination_port;
  if (!flow.redirected()) return false;
  if (addresses_.contains({to, port})) return true;
  return node_ports_.contains(port) && std::ranges::find(here, to) != here.end();
}

}  // namespace plan
