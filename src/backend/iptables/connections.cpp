#include "backend/iptables/connections.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backend/iptables/dump.h"
#include "backend/iptables/rules.h"
#include "base/text.h"

namespace iptables {
namespace {

// "[12:720] -A ..." -> 12
std::optional<uint64_t> packets_of(std::string_view line) {
  if (!line.starts_with('[')) return std::nullopt;
  return base::parse_number<uint64_t>(line.substr(1, line.find(':') - 1));
}

// The hash of KUBE-SVC-0123456789ABCDEF or KUBE-SVL-...: chains that pick an endpoint.
std::optional<codec::ChainHash> dispatch_hash(std::string_view chain) {
  constexpr std::string_view kCluster = "KUBE-SVC-";
  constexpr std::string_view kLocal = "KUBE-SVL-";
  if (!chain.starts_with(kCluster) && !chain.starts_with(kLocal)) return std::nullopt;
  codec::ChainHash hash;
  chain.remove_prefix(kCluster.size());
  if (chain.size() != hash.size()) return std::nullopt;
  std::ranges::copy(chain, hash.begin());
  return hash;
}

}  // namespace

void ConnectionReader::line(std::string_view text) {
  const auto packets = packets_of(text);
  if (!packets) return;
  const DumpLine parsed = parse_line(text);
  if (parsed.kind != DumpLine::Kind::Rule) return;
  if (parsed.rule.find(" -j KUBE-SEP-") == std::string_view::npos) return;
  if (const auto hash = dispatch_hash(parsed.name)) chains_[*hash] += *packets;
}

ChainConnections ConnectionReader::finish() {
  lines_.finish([this](std::string_view text) { line(text); });
  return std::move(chains_);
}

std::vector<backend::PortConnections> ConnectionTotals::add(const ChainConnections& seen,
                                                            const model::Snapshot& snapshot,
                                                            net::Family family) {
  std::vector<backend::PortConnections> all;
  std::map<codec::ChainHash, Port> kept;
  snapshot.services.for_each([&](const model::ServiceEntryPtr& entry) {
    const auto& service = entry->service;
    if (service == nullptr || service->skip != model::SkipReason::None) return;
    if (!service->cluster_ips[static_cast<size_t>(family)]) return;
    for (const auto& port : service->ports) {
      const auto hash = port_hash(plan::port_name(entry->key, port), port.protocol);
      const auto known = ports_.find(hash);
      Port now = known != ports_.end() ? known->second : Port{};
      const auto found = seen.find(hash);
      const uint64_t count = found != seen.end() ? found->second : 0;
      now.total += count >= now.last ? count - now.last : count;
      now.last = count;
      kept.emplace(hash, now);
      all.push_back({.service = entry->key,
                     .port = port.name.empty() ? std::to_string(port.port) : port.name,
                     .protocol = port.protocol,
                     .total = now.total});
    }
  });
  ports_ = std::move(kept);
  return all;
}

}  // namespace iptables
