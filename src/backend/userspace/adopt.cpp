#include "backend/userspace/adopt.h"

#include "base/text.h"

namespace userspace {
namespace {

// Of " -j REDIRECT --to-ports 40000" or " -j DNAT --to-destination 10.0.0.1:40000"; 0 if it is neither.
uint16_t port_of(std::string_view target) {
  constexpr std::string_view kRedirect = " -j REDIRECT --to-ports ";
  constexpr std::string_view kDnat = " -j DNAT --to-destination ";
  std::string_view port;
  if (target.starts_with(kRedirect)) {
    port = target.substr(kRedirect.size());
  } else if (const size_t colon = target.rfind(':');
             target.starts_with(kDnat) && colon != std::string_view::npos) {
    port = target.substr(colon + 1);
  }
  return base::parse_number<uint16_t>(port).value_or(0);
}

bool is_looked_at(std::string_view chain) {
  return chain == name(PortalChain::ServicesContainer) ||
         chain == name(PortalChain::NodePortsContainer);
}

}  // namespace

AdoptedPorts AdoptedPorts::parse(std::string_view dump) {
  AdoptedPorts adopted;
  for (const auto line : base::split(dump, '\n')) {
    const auto parsed = iptables::parse_line(line);
    if (parsed.kind != iptables::DumpLine::Kind::Rule || !is_looked_at(parsed.name)) continue;
    const size_t target = parsed.rule.rfind(" -j ");
    if (target == std::string_view::npos) continue;
    const uint16_t port = port_of(parsed.rule.substr(target));
    if (port == 0) continue;
    adopted.by_match_.emplace(parsed.rule.substr(0, target), port);
    adopted.ports_.insert(port);
  }
  return adopted;
}

uint16_t AdoptedPorts::find(std::string_view match) const {
  const auto found = by_match_.find(match);
  return found != by_match_.end() ? found->second : uint16_t{0};
}

ProxyPorts AdoptedPorts::of(const plan::PortPlan& plan) const {
  ProxyPorts found{};
  if (by_match_.empty()) return found;
  for (const auto& portal : portals_of(plan)) {
    uint16_t& port = found[static_cast<size_t>(portal.front)];
    if (port == 0) port = find(match_of(plan.name, portal));
  }
  return found;
}

}  // namespace userspace
