// What this node is, from the configuration, its Node object and its interfaces. Pure, but for
// node_name(), which asks for the host's name.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "kernel/addresses.h"
#include "model/objects.h"
#include "net/ip.h"
#include "plan/local_traffic.h"
#include "plan/plan.h"

// Whoever asks for the settings of a mode includes its proxier.h; all others are spared four modes.
namespace iptables {
struct Settings;
}
namespace nftables {
struct Settings;
}
namespace ipvs {
struct Settings;
}
namespace userspace {
struct Settings;
}

namespace proxyd {

struct NodeFacts {
  std::string name;
  net::Family primary = net::Family::V4;
  std::array<net::IpAddr, 2> ips;  // by family; loopback when undetermined
  bool primary_undetermined = false;
  std::vector<net::Cidr> pod_cidrs;
};

// The node's name: hostnameOverride, else the host's name; lower case.
base::Result<std::string> node_name(const config::Config& config);

// `node` may be null: then the first addresses of the interfaces that are neither loopback nor
// link-local stand in for it.
NodeFacts resolve_node(const config::Config& config, const std::string& name,
                       const model::Node* node,
                       const std::vector<kernel::InterfaceAddress>& addresses);

// Can these settings be served? Interface names, which get into rules, must be such as the kernel has them.
base::Result<> check_settings(const config::Config& config);

// Where node ports are open: the CIDRs of one family, or everywhere.
struct NodePortRange {
  bool everywhere = true;
  std::vector<net::Cidr> cidrs;

  // Does it name a CIDR of loopback, such as 127.0.0.0/8? One that merely has it inside does not count.
  bool names_loopback() const;
};
NodePortRange node_port_range(const config::Config& config, const NodeFacts& node,
                              net::Family family);
// Of these addresses those where node ports are open.
std::vector<net::IpAddr> within(const NodePortRange& range,
                                const std::vector<kernel::InterfaceAddress>& addresses);

// How traffic of local pods is recognised in one family.
plan::LocalTraffic local_traffic(const config::Config& config, const NodeFacts& node,
                                 net::Family family);

// For deciding about Services in one family, but for the zone, which may change.
plan::Context plan_context(const config::Config& config, const NodeFacts& node, net::Family family);

iptables::Settings iptables_settings(const config::Config& config, const NodeFacts& node,
                                     net::Family family);
nftables::Settings nftables_settings(const config::Config& config, const NodeFacts& node,
                                     net::Family family);
ipvs::Settings ipvs_settings(const config::Config& config, const NodeFacts& node,
                             net::Family family);
// `host`: an address of this node, which its own traffic is led to. `drain`: how long connections to endpoints that are
// gone may go on; 0: for ever.
userspace::Settings userspace_settings(const config::Config& config, const NodeFacts& node,
                                       const net::IpAddr& host, config::Duration drain);
// In mode nftables: loopback is in the range of node ports, and yet none will be open there.
bool leaves_out_loopback(const nftables::Settings& settings);

// Settings that look wrong, as kube-proxy words them; with `fatal` set, reason enough not to start.
struct ConfigurationWarning {
  std::string text;
  bool fatal = false;
};
std::vector<ConfigurationWarning> check_families(const config::Config& config,
                                                 const NodeFacts& node, bool dual_stack);

}  // namespace proxyd
