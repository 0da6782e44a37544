#include "daemon/backends.h"

#include <algorithm>
#include <map>
#include <thread>

#include "backend/iptables/proxier.h"
#include "backend/ipvs/proxier.h"
#include "backend/nftables/proxier.h"
#include "backend/userspace/proxier.h"
#include "base/text.h"
#include "daemon/host_address.h"
#include "daemon/kernel_version.h"
#include "daemon/node_setup.h"
#include "kernel/privileges.h"
#include "log/log.h"
#include "relay/engine.h"

namespace proxyd {
namespace {

using base::ErrorCode;
using base::Result;
using BackendPtr = std::unique_ptr<backend::Backend>;

// Which families to serve, IPv4 first.
Result<std::vector<net::Family>> choose_families(std::string_view mode, const NodeFacts& node) {
  const FamilySupport support = probe_families(mode);
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
  if (by_cidr && local_traffic(config, node, node.primary).by == plan::LocalTraffic::By::Nothing) {
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

Result<> allow_localhost(const char* how_to_change_that) {
  klog::info(
      std::string("Setting route_localnet=1 to allow node-ports on localhost; to change this ") +
      how_to_change_that);
  if (TRY(allow_localhost_node_ports())) {
    klog::verbose(1, "Changed sysctl", {{"name", kRouteLocalnet}, {"before", 0}, {"after", 1}});
  }
  return {};
}

Result<BackendPtr> make_iptables(const iptables::Settings& settings) {
  auto proxier = std::make_unique<iptables::Proxier>(settings);
  for (const auto& notice : proxier->probe())
    tell(notice, settings.family);
  if (settings.serves_localhost()) {
    TRY(allow_localhost(
        "either disable iptables.localhostNodePorts (--iptables-localhost-nodeports) or set "
        "nodePortAddresses (--nodeport-addresses) to filter loopback addresses"));
  }
  return proxier;
}

using Listeners = std::shared_ptr<kernel::nf_tables::Listeners>;

Result<BackendPtr> make_nftables(const nftables::Settings& settings, const Listeners& listeners) {
  TRY(check_nftables_kernel());
  if (leaves_out_loopback(settings)) {
    klog::error("--nodeport-addresses includes localhost but localhost NodePorts are not supported",
                "", {{"ipFamily", net::name(settings.options.family)}});
  }
  if (settings.options.localhost_node_ports) {
    TRY(allow_localhost("take the loopback CIDR out of nodePortAddresses (--nodeport-addresses)"));
  }
  return TRY(nftables::Proxier::open(settings, listeners));
}

// What all families of the mode share.
Result<> prepare_ipvs(const config::Config& config, const NodeFacts& node,
                      const std::vector<net::Family>& families) {
  klog::error(kIpvsDeprecated, "");
  const std::string scheduler = ipvs_settings(config, node, node.primary).options.scheduler;
  TRY_CONTEXT(ipvs::check_kernel(scheduler, families), "can't use the IPVS proxier");
  TRY(set_up_ipvs(config.ipvs));
  set_ipvs_timeouts(config.ipvs);
  return {};
}

struct Userspace {
  std::map<net::Family, net::IpAddr> hosts;  // of those that can be served
  std::shared_ptr<relay::Engine> engine;
};

// A family other than the primary one may do without.
Result<std::map<net::Family, net::IpAddr>> find_hosts(const config::Config& config,
                                                      const NodeFacts& node,
                                                      const std::vector<net::Family>& families) {
  std::map<net::Family, net::IpAddr> hosts;
  for (const auto family : families) {
    const auto host = host_address(config, node, family);
    if (host) {
      hosts.emplace(family, *host);
    } else if (family == node.primary) {
      return base::fail(host.error().code,
                        "failed to select a host interface: " + host.error().text);
    } else {
      klog::warning("No address for the traffic of this node, not serving the family",
                    {{"ipFamily", net::name(family)}, {"err", host.error().text}});
    }
  }
  return hosts;
}

// The soft limit in force.
Result<uint64_t> raise_descriptor_limit() {
  constexpr uint64_t kLeast = 64000;  // as v1.25 demanded
  if (const auto lifted = kernel::lift_descriptor_ceiling(kLeast); !lifted)
    klog::warning("Could not lift the limit of open files, it bounds the number of connections",
                  {{"wanted", kLeast}, {"err", lifted.error().text}});
  return kernel::raise_descriptor_limit();
}

Result<Userspace> prepare_userspace(const config::Config& config, const NodeFacts& node,
                                    const std::vector<net::Family>& families) {
  klog::info("Using userspace Proxier");
  klog::info(
      "The userspace proxier is now deprecated and will be removed in a future release, please "
      "use 'iptables' or 'ipvs' instead");
  const auto bind = net::IpAddr::parse(config.bind_address);
  if (bind && bind->is_loopback())
    return base::fail(ErrorCode::Invalid, "cannot proxy on localhost");
  Userspace userspace;
  userspace.hosts = TRY(find_hosts(config, node, families));
  const uint64_t limit = TRY(raise_descriptor_limit());
  const relay::Engine::Settings settings{
      .workers = std::max(1U, std::thread::hardware_concurrency()),
      .udp_idle = config.udp_idle_timeout,
      .descriptors = relay_descriptors(limit)};
  userspace.engine = TRY(relay::Engine::start(settings));
  klog::info("Started the relay",
             {{"workers", settings.workers}, {"descriptors", settings.descriptors}});
  return userspace;
}

// What all families of a mode share.
struct Common {
  Listeners listeners = std::make_shared<kernel::nf_tables::Listeners>();
  Userspace userspace;
};

Result<Common> prepare(const config::Config& config, const NodeFacts& node,
                       std::vector<net::Family>& families) {
  Common common;
  if (config.mode == "ipvs") TRY(prepare_ipvs(config, node, families));
  if (config.mode == "userspace") {
    common.userspace =
        TRY_CONTEXT(prepare_userspace(config, node, families), "unable to create proxier");
    std::erase_if(families,
                  [&](net::Family family) { return !common.userspace.hosts.contains(family); });
  }
  return common;
}

Result<BackendPtr> make_backend(const config::Options& options, const NodeFacts& node,
                                net::Family family, const Common& common) {
  const config::Config& config = options.config;
  if (config.mode == "nftables")
    return make_nftables(nftables_settings(config, node, family), common.listeners);
  if (config.mode == "ipvs") return TRY(ipvs::Proxier::open(ipvs_settings(config, node, family)));
  if (config.mode == "userspace") {
    const auto settings = userspace_settings(config, node, common.userspace.hosts.at(family),
                                             options.tcp_reset_after);
    return TRY(userspace::Proxier::open(settings, common.userspace.engine));
  }
  return make_iptables(iptables_settings(config, node, family));
}

}  // namespace

size_t relay_descriptors(uint64_t limit) {
  constexpr uint64_t kLeastReserve = 256;
  const uint64_t reserve = std::max(limit / 8, kLeastReserve);
  // Even a process that may have very few serves a little.
  return static_cast<size_t>(limit > 2 * reserve ? limit - reserve : limit / 2);
}

Result<std::vector<BackendPtr>> make_backends(const config::Options& options,
                                              const NodeFacts& node) {
  const config::Config& config = options.config;
  auto families = TRY(choose_families(config.mode, node));
  const bool dual_stack = families.size() == 2;
  TRY(warn_about_configuration(config, node, dual_stack));
  const Common common = TRY(prepare(config, node, families));
  std::vector<BackendPtr> backends;
  for (const auto family : families) {
    std::string failure = "unable to create proxier";
    if (dual_stack) failure += ": unable to create " + base::lower(net::name(family)) + " proxier";
    backends.push_back(TRY_CONTEXT(make_backend(options, node, family, common), failure));
  }
  return backends;
}

}  // namespace proxyd
