#include "backend/userspace/image.h"

#include <set>

namespace userspace {
namespace {

constexpr uint16_t kFirstOfAny = 40000;
constexpr uint16_t kLastOfAny = 65535;

// Names ports instead of opening sockets on them.
class Counter {
 public:
  Counter(const PortRange& range, const std::set<uint16_t>& reserved)
      : range_(range),
        reserved_(reserved),
        next_(range.any() ? kFirstOfAny : range.first),
        last_(range.any() ? kLastOfAny : range.last) {}

  // The preferred port (0: none), or else the next one. 0 if there is none left.
  uint16_t take(uint16_t preferred) {
    if (preferred != 0 && range_.contains(preferred) && given_.insert(preferred).second)
      return preferred;
    while (next_ <= last_ && reserved_.contains(static_cast<uint16_t>(next_)))
      ++next_;
    return next_ <= last_ ? static_cast<uint16_t>(next_++) : uint16_t{0};
  }

 private:
  PortRange range_;
  const std::set<uint16_t>& reserved_;  // for those who prefer them
  std::set<uint16_t> given_;            // ... and got them
  uint32_t next_;
  uint32_t last_;
};

ProxyPorts ports_for(const plan::PortPlan& plan, const AdoptedPorts& adopted, Counter& counter) {
  ProxyPorts ports = adopted.of(plan);
  for (const Way way : fronts_of(plan)) {
    uint16_t& port = ports[static_cast<size_t>(way)];
    port = counter.take(port);
  }
  return ports;
}

}  // namespace

std::vector<iptables::FixedChain> chains_of(const Settings& settings,
                                            const model::Snapshot& snapshot,
                                            const AdoptedPorts& adopted) {
  Counter counter(settings.ports, adopted.all());
  const PortalOptions options = settings.portal_options();
  auto chains = empty_chains();
  for (const auto& plan : plan::compile_all(snapshot.services, settings.context_of(snapshot))) {
    for (const auto& port : plan.ports) {
      if (port.protocol == net::Protocol::Sctp) continue;
      PortalLines lines;
      for (const auto& portal : portals_of(port, ports_for(port, adopted, counter)))
        append_rules(options, port.name, portal, lines);
      append_lines(lines, chains);
    }
  }
  return chains;
}

}  // namespace userspace
