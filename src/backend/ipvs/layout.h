// What mode ipvs has in the kernel whatever Services there are: a device, sets, chains. Names and order are those of
// kube-proxy v1.36.4.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernel/ipset.h"
#include "net/ip.h"
#include "plan/local_traffic.h"

namespace ipvs {

// Has the addresses of Services, so that the kernel takes packets to them for its own.
inline constexpr const char* kDevice = "kube-ipvs0";
inline constexpr const char* kDeviceKind = "dummy";

enum class SetId : uint8_t {
  LoopBack,
  ClusterIp,
  ExternalIp,
  ExternalIpLocal,
  LoadBalancer,
  LoadBalancerFirewall,
  LoadBalancerLocal,
  LoadBalancerSourceIp,
  LoadBalancerSourceCidr,
  NodePortTcp,
  NodePortLocalTcp,
  NodePortUdp,
  NodePortLocalUdp,
  NodePortSctp,
  NodePortLocalSctp,
  HealthCheckNodePort,
  IpvsIps,
};
inline constexpr size_t kSets = 17;
std::array<SetId, kSets> all_sets();

// "KUBE-CLUSTER-IP", or "KUBE-6-CLUSTER-IP"; cut at the 31 characters that the kernel takes.
std::string set_name(SetId set, net::Family family);
kernel::SetType type_of(SetId set);
// In the rules that use it.
std::string_view comment_of(SetId set);

// Settings that shape what is written; the same for all Services of one family.
struct Options {
  net::Family family = net::Family::V4;
  std::string scheduler = "rr";
  uint32_t masquerade_mark = 1U << 14;
  bool masquerade_all = false;
  bool random_fully = true;
  plan::LocalTraffic local_traffic;
};

}  // namespace ipvs
