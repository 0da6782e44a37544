// What the daemon sets on its node before it proxies: conntrack's limits and time-outs, its own
// place in the order of out-of-memory kills. One-shot commands do none of this.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "daemon/kernel_version.h"
#include "log/log.h"

namespace proxyd {

// nf_conntrack_max for this configuration; 0 = leave it alone. Pure.
int64_t conntrack_max(const config::Conntrack& conntrack, int cpus);

// The sysctls to set, under net/netfilter/, with their values. Pure.
std::vector<std::pair<std::string, int64_t>> conntrack_sysctls(const config::Conntrack& conntrack,
                                                               int cpus);

// How many logical CPUs of the machine are online, whatever this process may use of them: a quota of its
// container does not make the node see fewer connections. `root` stands before /sys, for tests.
int machine_cpus(const std::string& root = "");

// Writes those that differ, and logs each; lets the hash table grow with the maximum. Any failure is an
// error. `root` stands before /proc and /sys, for tests.
base::Result<> set_conntrack(const config::Conntrack& conntrack, const std::string& root = "");

// Best effort: lowering it needs CAP_SYS_RESOURCE.
base::Result<> set_oom_score(int32_t adjustment);

inline constexpr const char* kRouteLocalnet = "net/ipv4/conf/all/route_localnet";

// Sets route_localnet, which node ports on 127.0.0.1 need. True: it was changed.
base::Result<bool> allow_localhost_node_ports(const std::string& root = "");

// What mode ipvs needs, below /proc/sys, in the order in which it is set. Pure.
std::vector<std::pair<std::string, int64_t>> ipvs_sysctls(bool strict_arp, ConnectionReuse reuse);
// Sets those that differ.
base::Result<> set_up_ipvs(const config::Ipvs& ipvs, const std::string& root = "");
// The time-outs of connections that are configured. A failure is told, and no more.
void set_ipvs_timeouts(const config::Ipvs& ipvs);

// The families that can be served, IPv4 first: the kernel must have it, and iptables, if the mode uses
// that, must work for it. `notices` gets a line for each that cannot.
struct FamilySupport {
  bool v4 = false;
  bool v6 = false;
  struct Notice {
    std::string message;
    klog::Fields fields;

    std::string str() const;  // for people
  };
  std::vector<Notice> notices;
  std::string iptables_error;  // of the last family that failed
};
FamilySupport probe_families(std::string_view mode);

}  // namespace proxyd
