#include "backend/ipvs/layout.h"

namespace ipvs {
namespace {

using kernel::SetType;

struct SetLayout {
  std::string_view name;  // behind "KUBE-" or "KUBE-6-"
  SetType type;
  std::string_view comment;
};

// By SetId.
constexpr std::array<SetLayout, kSets> kLayouts{{
    {"LOOP-BACK", SetType::HashIpPortIp,
     "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose"},
    {"CLUSTER-IP", SetType::HashIpPort,
     "Kubernetes service cluster ip + port for masquerade purpose"},
    {"EXTERNAL-IP", SetType::HashIpPort,
     "Kubernetes service external ip + port for masquerade and filter purpose"},
    {"EXTERNAL-IP-LOCAL", SetType::HashIpPort,
     "Kubernetes service external ip + port with externalTrafficPolicy=local"},
    {"LOAD-BALANCER", SetType::HashIpPort, "Kubernetes service lb portal"},
    {"LOAD-BALANCER-FW", SetType::HashIpPort,
     "Kubernetes service load balancer ip + port for load balancer with sourceRange"},
    {"LOAD-BALANCER-LOCAL", SetType::HashIpPort,
     "Kubernetes service load balancer ip + port with externalTrafficPolicy=local"},
    {"LOAD-BALANCER-SOURCE-IP", SetType::HashIpPortIp,
     "Kubernetes service load balancer ip + port + source IP for packet filter purpose"},
    {"LOAD-BALANCER-SOURCE-CIDR", SetType::HashIpPortNet,
     "Kubernetes service load balancer ip + port + source cidr for packet filter purpose"},
    {"NODE-PORT-TCP", SetType::BitmapPort, "Kubernetes nodeport TCP port for masquerade purpose"},
    {"NODE-PORT-LOCAL-TCP", SetType::BitmapPort,
     "Kubernetes nodeport TCP port with externalTrafficPolicy=local"},
    {"NODE-PORT-UDP", SetType::BitmapPort, "Kubernetes nodeport UDP port for masquerade purpose"},
    {"NODE-PORT-LOCAL-UDP", SetType::BitmapPort,
     "Kubernetes nodeport UDP port with externalTrafficPolicy=local"},
    {"NODE-PORT-SCTP-HASH", SetType::HashIpPort,
     "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'"},
    {"NODE-PORT-LOCAL-SCTP-HASH", SetType::HashIpPort,
     "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'"},
    {"HEALTH-CHECK-NODE-PORT", SetType::BitmapPort, "Kubernetes health check node port"},
    {"IPVS-IPS", SetType::HashIp, "Addresses on the ipvs interface"},
}};

constexpr size_t kLongestName = 31;

const SetLayout& layout_of(SetId set) { return kLayouts.at(static_cast<size_t>(set)); }

}  // namespace

std::array<SetId, kSets> all_sets() {
  std::array<SetId, kSets> sets{};
  for (size_t i = 0; i < kSets; ++i)
    sets[i] = static_cast<SetId>(i);
  return sets;
}

std::string set_name(SetId set, net::Family family) {
  std::string name = family == net::Family::V4 ? "KUBE-" : "KUBE-6-";
  name += layout_of(set).name;
  if (name.size() > kLongestName) name.resize(kLongestName);
  return name;
}

SetType type_of(SetId set) { return layout_of(set).type; }

std::string_view comment_of(SetId set) { return layout_of(set).comment; }

}  // namespace ipvs
