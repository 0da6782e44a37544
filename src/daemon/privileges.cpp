#include "daemon/privileges.h"

#include "config/kubeconfig.h"
#include "http/proxy.h"
#include "kernel/privileges.h"
#include "log/log.h"

namespace proxyd {
namespace {

// NET_ADMIN         rules and conntrack
// NET_RAW           the socket that iptables-legacy talks to the kernel through; --tcp-reset-after
// NET_BIND_SERVICE  health-check node ports below 1024: which they are, Services tell at any time. It adds
//                   nothing for an intruder, as whoever has NET_ADMIN can redirect any port.
constexpr kernel::Capabilities kNeeded{CAP_NET_ADMIN, CAP_NET_RAW, CAP_NET_BIND_SERVICE};

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
  const kernel::Capabilities keep = kernel::with_access_to(files_read_again(options), kNeeded);
  if (keep != kNeeded) {
    klog::info("Keeping a capability to read files that belong to another user",
               {{"capability", kernel::Capabilities(keep.bits() & ~kNeeded.bits()).str()}});
  }
  const kernel::Dropped dropped = kernel::drop_privileges(keep);
  klog::info("Dropped privileges",
             {{"capabilities", dropped.left.str()}, {"threads", dropped.threads}});
  for (const auto& problem : dropped.problems)
    klog::warning("Could not drop all privileges, ignoring", {{"err", problem}});
}

}  // namespace proxyd
