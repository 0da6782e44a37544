#include "daemon/node_setup.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "backend/iptables/commit.h"
#include "kernel/sysctl.h"
#include "log/log.h"

namespace proxyd {
namespace {

using base::Result;

constexpr int64_t kMaxConntrack = 1048576;
constexpr const char* kHashSize = "/sys/module/nf_conntrack/parameters/hashsize";

// Writes the sysctl unless it has the value; true if it was written.
Result<bool> set_if_different(const std::string& name, int64_t value) {
  if (const auto now = kernel::read_sysctl(name); now && *now == value) return false;
  TRY(kernel::write_sysctl(name, value));
  return true;
}

Result<> grow_hash(int64_t max) {
  const std::string text = TRY(kernel::read_small_file(kHashSize));
  const int64_t wanted = max / 4;
  if (std::strtoll(text.c_str(), nullptr, 10) >= wanted) return {};
  klog::info("Setting conntrack hashsize", {{"conntrackHashsize", wanted}});
  return kernel::write_small_file(kHashSize, std::to_string(wanted));
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
  const auto whole_seconds = [](config::Duration d) {
    return std::chrono::duration_cast<std::chrono::seconds>(d).count();
  };
  add("nf_conntrack_max", conntrack_max(conntrack, cpus));
  add("nf_conntrack_tcp_timeout_established", whole_seconds(conntrack.tcp_established_timeout));
  add("nf_conntrack_tcp_timeout_close_wait", whole_seconds(conntrack.tcp_close_wait_timeout));
  add("nf_conntrack_tcp_be_liberal", conntrack.tcp_be_liberal ? 1 : 0);
  add("nf_conntrack_udp_timeout", whole_seconds(conntrack.udp_timeout));
  add("nf_conntrack_udp_timeout_stream", whole_seconds(conntrack.udp_stream_timeout));
  return sysctls;
}

Result<> set_conntrack(const config::Conntrack& conntrack) {
  const int cpus = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const int64_t max = conntrack_max(conntrack, cpus);
  if (max > 0) klog::info("Setting nf_conntrack_max", {{"nfConntrackMax", max}});
  for (const auto& [name, value] : conntrack_sysctls(conntrack, cpus)) {
    if (TRY(set_if_different(name, value))) {
      klog::info("Set sysctl", {{"entry", name}, {"value", value}});
    }
  }
  return max > 0 ? grow_hash(max) : Result<>();
}

Result<> set_oom_score(int32_t adjustment) {
  return kernel::write_small_file("/proc/self/oom_score_adj", std::to_string(adjustment));
}

std::string FamilySupport::Notice::str() const {
  std::string out = message;
  for (const auto& field : fields)
    out += (field.key == "error" ? ": " : " ") + field.value;
  return out;
}

FamilySupport probe_families() {
  FamilySupport support;
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
