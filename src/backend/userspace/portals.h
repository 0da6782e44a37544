// The iptables rules of mode userspace, written the way iptables-save prints them. Pure.
//
// A portal is an address and port, or a node port, whose traffic rules lead to a proxy port.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/iptables/cleanup.h"
#include "backend/iptables/skeleton.h"
#include "backend/userspace/ways.h"
#include "net/ip.h"
#include "plan/plan.h"

namespace userspace {

// From built-in chains to ours, in the order in which they are written if missing.
const std::vector<iptables::Jump>& jumps();

// The chains of the mode, in the order in which they are made.
enum class PortalChain : uint8_t {
  ServicesContainer,  // from pods and from outside
  ServicesHost,       // from this node
  NodePortsContainer,
  NodePortsHost,
  NodePortsNonLocal,  // lets what came to a node port from outside pass
};
inline constexpr size_t kPortalChains = 5;
std::string_view name(PortalChain chain);
iptables::Table table_of(PortalChain chain);
// All of that, for taking it away.
iptables::Owned owned();

struct Portal {
  enum class Kind : uint8_t { ClusterIp, ExternalIp, LoadBalancerIp, NodePort };
  Kind kind = Kind::ClusterIp;
  net::Protocol protocol = net::Protocol::Tcp;
  net::IpAddr ip;  // not for a node port
  uint16_t port = 0;
  Way front = Way::Internal;  // that serves it
  uint16_t proxy_port = 0;    // of that front

  auto operator<=>(const Portal&) const = default;
};

// The portals of a Service port, in the order of their rules; still without proxy ports.
std::vector<Portal> portals_of(const plan::PortPlan& plan);

// The proxy port of each front, by Way; 0: it has none.
using ProxyPorts = std::array<uint16_t, kWays.size()>;
// ... with proxy ports. Those whose front has none are left out.
std::vector<Portal> portals_of(const plan::PortPlan& plan, const ProxyPorts& ports);

// What shapes the rules of all Services.
struct PortalOptions {
  net::Family family = net::Family::V4;
  net::IpAddr listen;  // where proxy ports are; unspecified: on all addresses
  net::IpAddr host;    // an address of this node, for its own traffic
};

// Whole lines, by chain.
using PortalLines = std::array<std::string, kPortalChains>;
// `service` is PortPlan::name.
void append_rules(const PortalOptions& options, std::string_view service, const Portal& portal,
                  PortalLines& out);
// The first rule of the portal up to its target: what AdoptedPorts finds it by.
std::string match_of(std::string_view service, const Portal& portal);

// All chains, without rules; then those of one Service after the other.
std::vector<iptables::FixedChain> empty_chains();
void append_lines(const PortalLines& lines, std::vector<iptables::FixedChain>& chains);

}  // namespace userspace
