#include "daemon/node_setup.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "backend/iptables/commit.h"
#include "base/text.h"
#include "kernel/ipvs.h"
#include "kernel/sysctl.h"
#include "log/log.h"

namespace proxyd {
namespace {

using base::Result;

constexpr int64_t kMaxConntrack = 1048576;
constexpr const char* kHashSize = "/sys/module/nf_conntrack/parameters/hashsize";
constexpr const char* kOnlineCpus = "/sys/devices/system/cpu/online";

// "0-3,8" -> 5; 0 if it is not such a list.
int count_cpus(std::string_view list) {
  int count = 0;
  for (const auto range : base::split(base::trim(list), ',')) {
    const auto dash = range.find('-');
    const auto first = base::parse_number<int>(range.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : base::parse_number<int>(range.substr(dash + 1));
    if (!first || !last || *last < *first) return 0;
    count += *last - *first + 1;
  }
  return count;
}

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

Result<> set_if_different(const std::string& name, int64_t value, const std::string& root) {
  if (const auto now = kernel::read_sysctl(name, root); now && *now == value) return {};
  klog::info("Set sysctl", {{"entry", name}, {"value", value}});
  return kernel::write_sysctl(name, value, root);
}

// Parity: it never shrinks.
Result<> grow_hash(int64_t max, const std::string& root) {
  const std::string text = TRY(kernel::read_small_file(root + kHashSize));
  const auto now = base::parse_number<int64_t>(base::trim(text));
  if (!now) {
    return base::fail(base::ErrorCode::Invalid,
                      std::string(kHashSize) + ": not a number: " + base::quote(text));
  }
  const int64_t wanted = max / 4;
  if (*now >= wanted) return {};
  klog::info("Setting conntrack hashsize", {{"conntrackHashsize", wanted}});
  return kernel::write_small_file(root + kHashSize, std::to_string(wanted));
}

bool kernel_has_ipv6(std::vector<FamilySupport::Notice>& notices) {
  const klog::Fields v6{{"ipFamily", net::name(net::Family::V6)}};
  if (::access("/proc/net/if_inet6", F_OK) != 0) {
    notices.push_back({"No kernel support for family", v6});
    return false;
  }
  if (kernel::read_sysctl("net/ipv6/conf/all/disable_ipv6").value_or(0) == 1) {
    notices.push_back({"Kernel support disabled for family", v6});
    return false;
  }
  return true;
}

}  // namespace

int64_t conntrack_max(const config::Conntrack& conntrack, int cpus) {
  if (conntrack.max_per_core <= 0) return 0;
  const int64_t scaled = int64_t{conntrack.max_per_core} * cpus;
  // Parity: the ceiling wins over `min`.
  if (scaled > kMaxConntrack) return kMaxConntrack;
  return std::max<int64_t>(scaled, conntrack.min);
}

std::vector<std::pair<std::string, int64_t>> conntrack_sysctls(const config::Conntrack& conntrack,
                                                               int cpus) {
  std::vector<std::pair<std::string, int64_t>> sysctls;
  const auto add = [&](const char* name, int64_t value) {
    if (value > 0) sysctls.emplace_back(std::string("net/netfilter/") + name, value);
  };
  // Parity: less than a second becomes 0.
  const auto add_timeout = [&](const char* name, config::Duration timeout) {
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
    if (timeout.count() > 0) sysctls.emplace_back(std::string("net/netfilter/") + name, whole);
  };
  add("nf_conntrack_max", conntrack_max(conntrack, cpus));
  add_timeout("nf_conntrack_tcp_timeout_established", conntrack.tcp_established_timeout);
  add_timeout("nf_conntrack_tcp_timeout_close_wait", conntrack.tcp_close_wait_timeout);
  add("nf_conntrack_tcp_be_liberal", conntrack.tcp_be_liberal ? 1 : 0);
  add_timeout("nf_conntrack_udp_timeout", conntrack.udp_timeout);
  add_timeout("nf_conntrack_udp_timeout_stream", conntrack.udp_stream_timeout);
  return sysctls;
}

int machine_cpus(const std::string& root) {
  const int online = count_cpus(kernel::read_small_file(root + kOnlineCpus).value_or(""));
  return online > 0 ? online : usable_cpus();
}

Result<> set_conntrack(const config::Conntrack& conntrack, const std::string& root) {
  const int cpus = machine_cpus(root);
  const int64_t max = conntrack_max(conntrack, cpus);
  if (max > 0) klog::info("Setting nf_conntrack_max", {{"nfConntrackMax", max}});
  for (const auto& [name, value] : conntrack_sysctls(conntrack, cpus)) {
    TRY(set_if_different(name, value, root));
    if (name.ends_with("/nf_conntrack_max")) TRY(grow_hash(max, root));
  }
  return {};
}

Result<> set_oom_score(int32_t adjustment) {
  // Once: what is refused to this process now is refused to it a moment later.
  return kernel::write_small_file("/proc/self/oom_score_adj", std::to_string(adjustment));
}

Result<bool> allow_localhost_node_ports(const std::string& root) {
  if (kernel::read_sysctl(kRouteLocalnet, root).value_or(0) == 1) return false;
  TRY_CONTEXT(kernel::write_sysctl(kRouteLocalnet, 1, root),
              std::string("can't set sysctl ") + kRouteLocalnet + " to 1");
  return true;
}

std::vector<std::pair<std::string, int64_t>> ipvs_sysctls(bool strict_arp, ConnectionReuse reuse) {
  std::vector<std::pair<std::string, int64_t>> sysctls{{"net/ipv4/vs/conntrack", 1}};
  if (reuse == ConnectionReuse::Needed) sysctls.emplace_back("net/ipv4/vs/conn_reuse_mode", 0);
  sysctls.emplace_back("net/ipv4/vs/expire_nodest_conn", 1);
  sysctls.emplace_back("net/ipv4/vs/expire_quiescent_template", 1);
  sysctls.emplace_back("net/ipv4/ip_forward", 1);
  if (strict_arp) {
    sysctls.emplace_back("net/ipv4/conf/all/arp_ignore", 1);
    sysctls.emplace_back("net/ipv4/conf/all/arp_announce", 2);
  }
  return sysctls;
}

Result<> set_up_ipvs(const config::Ipvs& ipvs, const std::string& root) {
  const auto reuse = connection_reuse(TRY(kernel_release()));
  if (reuse == ConnectionReuse::NotKnown)
    klog::error("Can't set sysctl, kernel version doesn't satisfy minimum version requirements",
                "the kernel is older than 4.1", {{"sysctl", "net/ipv4/vs/conn_reuse_mode"}});
  const auto sysctls = ipvs_sysctls(ipvs.strict_arp, reuse.value_or(ConnectionReuse::NotNeeded));
  for (const auto& [name, value] : sysctls) {
    TRY_CONTEXT(set_if_different(name, value, root),
                "can't set sysctl " + name + " to " + std::to_string(value));
  }
  return {};
}

void set_ipvs_timeouts(const config::Ipvs& ipvs) {
  const auto whole = [](config::Duration timeout) {
    return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(timeout).count());
  };
  if (ipvs.tcp_timeout.count() + ipvs.tcp_fin_timeout.count() + ipvs.udp_timeout.count() == 0)
    return;
  auto opened = kernel::Ipvs::open();
  const auto set = opened ? opened->set_timeouts({.tcp = whole(ipvs.tcp_timeout),
                                                  .tcp_fin = whole(ipvs.tcp_fin_timeout),
                                                  .udp = whole(ipvs.udp_timeout)})
                          : Result<>(std::unexpected(opened.error()));
  if (!set) klog::error("Failed to configure IPVS timeouts", set.error().text);
}

std::string FamilySupport::Notice::str() const {
  std::string out = message;
  for (const auto& field : fields)
    out += (field.key == "error" ? ": " : " ") + field.value;
  return out;
}

FamilySupport probe_families(std::string_view mode) {
  FamilySupport support;
  if (mode == "nftables") {
    support.v4 = true;
    support.v6 = kernel_has_ipv6(support.notices);
    return support;
  }
  for (const auto family : net::kFamilies) {
    const auto works = iptables::Programs(family).probe();
    if (!works) {
      support.iptables_error = works.error().text;
      support.notices.push_back({"No iptables support for family",
                                 {{"ipFamily", net::name(family)}, {"error", works.error().text}}});
    }
    (family == net::Family::V4 ? support.v4 : support.v6) = works.has_value();
  }
  support.v6 = support.v6 && kernel_has_ipv6(support.notices);
  return support;
}

}  // namespace proxyd
