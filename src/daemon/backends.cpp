#include "daemon/backends.h"

#include "backend/iptables/proxier.h"
#include "daemon/node_setup.h"
#include "log/log.h"

namespace proxyd {
namespace {

using base::ErrorCode;
using base::Result;

// Which families to serve, IPv4 first.
Result<std::vector<net::Family>> choose_families(const NodeFacts& node) {
  const FamilySupport support = probe_families();
  if (!support.v4 && !support.v6) {
    return base::fail(ErrorCode::Unsupported,
                      "iptables is not available on this host : " + support.iptables_error);
  }
  for (const auto& notice : support.notices)
    klog::info(notice.message, notice.fields);
  const bool primary_works = node.primary == net::Family::V4 ? support.v4 : support.v6;
  if (!primary_works) {
    return base::fail(ErrorCode::Unsupported, "no support for primary IP family \"" +
                                                  std::string(net::name(node.primary)) + "\"");
  }
  if (support.v4 && support.v6) {
    klog::info("kube-proxy running in dual-stack mode",
               {{"primary ipFamily", net::name(node.primary)}});
    return std::vector{net::Family::V4, net::Family::V6};
  }
  klog::info("kube-proxy running in single-stack mode", {{"ipFamily", net::name(node.primary)}});
  return std::vector{node.primary};
}

Result<> warn_about_configuration(const config::Config& config, const NodeFacts& node,
                                  bool dual_stack) {
  for (const auto& warning : check_families(config, node, dual_stack)) {
    if (warning.fatal)
      return base::fail(ErrorCode::Invalid,
                        "kube-proxy configuration is incorrect: " + warning.text);
    klog::error("Kube-proxy configuration may be incomplete or incorrect", warning.text);
  }
  const bool by_cidr =
      config.detect_local_mode == "ClusterCIDR" || config.detect_local_mode == "NodeCIDR";
  if (by_cidr &&
      local_traffic(config, node, node.primary).by == iptables::LocalTraffic::By::Nothing) {
    klog::info(config.detect_local_mode == "ClusterCIDR"
                   ? "Detect-local-mode set to ClusterCIDR, but no cluster CIDR specified for "
                     "primary IP family"
                   : "Detect-local-mode set to NodeCIDR, but no PodCIDR defined at node for "
                     "primary IP family");
  }
  return {};
}

void tell(const iptables::Proxier::Notice& notice, net::Family family) {
  const klog::Fields fields{{"ipFamily", net::name(family)}};
  if (notice.err.empty()) return klog::info(notice.message, fields);
  klog::error(notice.message, notice.err, fields);
}

Result<> allow_localhost(iptables::Proxier& proxier) {
  klog::info(
      "Setting route_localnet=1 to allow node-ports on localhost; to change this either disable "
      "iptables.localhostNodePorts (--iptables-localhost-nodeports) or set nodePortAddresses "
      "(--nodeport-addresses) to filter loopback addresses");
  if (TRY(proxier.allow_localhost())) {
    klog::verbose(1, "Changed sysctl",
                  {{"name", iptables::kRouteLocalnet}, {"before", 0}, {"after", 1}});
  }
  return {};
}

}  // namespace

Result<std::vector<std::unique_ptr<backend::Backend>>> make_backends(const config::Config& config,
                                                                     const NodeFacts& node) {
  const auto families = TRY(choose_families(node));
  TRY(warn_about_configuration(config, node, families.size() == 2));
  std::vector<std::unique_ptr<backend::Backend>> backends;
  for (const auto family : families) {
    const iptables::Settings settings = iptables_settings(config, node, family);
    auto proxier = std::make_unique<iptables::Proxier>(settings);
    for (const auto& notice : proxier->probe())
      tell(notice, family);
    if (settings.serves_localhost()) TRY(allow_localhost(*proxier));
    backends.push_back(std::move(proxier));
  }
  return backends;
}

}  // namespace proxyd
