#include "daemon/privileges.h"

#include <algorithm>

#include "config/kubeconfig.h"
#include "daemon/clean_up.h"
#include "http/proxy.h"
#include "kernel/privileges.h"
#include "log/log.h"

namespace proxyd {
namespace {

// NET_ADMIN         rules and conntrack
// NET_BIND_SERVICE  health-check node ports below 1024: which they are, Services tell at any time. It adds
//                   nothing for an intruder, as whoever has NET_ADMIN can redirect any port.
constexpr kernel::Capabilities kNeeded{CAP_NET_ADMIN, CAP_NET_BIND_SERVICE};

// The resets of --tcp-reset-after, and the programs of iptables: legacy talks to the kernel through a raw socket, and
// in both variants the match for sets does. Mode nftables runs them only to remove what another mode has left.
bool needs_raw_sockets(const config::Options& options) {
  return options.config.mode != "nftables" || options.tcp_reset_after.count() > 0 ||
         std::ranges::any_of(net::kFamilies, may_have_iptables_rules);
}

}  // namespace

std::vector<std::string> files_read_again(const config::Options& options) {
  if (!options.manifests.empty()) return {options.manifests};
  std::vector<config::AccessNotice> told_already;
  const auto access =
      config::load_access(options.config.client_connection.kubeconfig, options.master,
                          http::process_environment(), told_already);
  if (!access) return {};
  std::vector<std::string> files{access->ca.file, access->cert.file, access->key.file,
                                 access->token_file};
  std::erase(files, "");
  return files;
}

void drop_privileges(const config::Options& options) {
  if (options.keep_privileges) {
    klog::info("Keeping all privileges, as --keep-privileges asks for");
    return;
  }
  const kernel::Capabilities needed =
      needs_raw_sockets(options) ? kNeeded | kernel::Capabilities{CAP_NET_RAW} : kNeeded;
  const kernel::Capabilities keep = kernel::with_access_to(files_read_again(options), needed);
  if (keep != needed) {
    klog::info("Keeping a capability to read files that belong to another user",
               {{"capability", kernel::Capabilities(keep.bits() & ~needed.bits()).str()}});
  }
  const kernel::Dropped dropped = kernel::drop_privileges(keep);
  klog::info("Dropped privileges",
             {{"capabilities", dropped.left.str()}, {"threads", dropped.threads}});
  for (const auto& problem : dropped.problems)
    klog::warning("Could not drop all privileges, ignoring", {{"err", problem}});
}

}  // namespace proxyd
