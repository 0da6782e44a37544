#include "daemon/daemon.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "backend/iptables/proxier.h"
#include "config/go_duration.h"
#include "daemon/config_watch.h"
#include "daemon/node_facts.h"
#include "daemon/node_setup.h"
#include "daemon/sync_loop.h"
#include "event/mailbox.h"
#include "kernel/netfilter.h"
#include "log/log.h"
#include "model/store.h"
#include "source/manifests.h"
#include "source/watch.h"

namespace proxyd {
namespace {

namespace asio = boost::asio;
using base::ErrorCode;
using base::Result;

// inotify is a hint: now and then the folder is looked through anyway.
constexpr std::chrono::seconds kRescan{30};

double ms(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

void tell(const source::Report& report) {
  switch (report.severity) {
    case source::Report::Severity::Info:
      klog::info(report.str());
      break;
    case source::Report::Severity::Warning:
      klog::warning(report.str());
      break;
    case source::Report::Severity::Error:
      klog::error("Manifest is broken", report.str());
      break;
  }
}

// The loop thread: reads manifests, folds them into the store, and hands updates to the sync thread.
class Loop {
 public:
  Loop(const config::Options& options, model::Store& store, source::Manifests& manifests,
       event::Mailbox<Update>& mailbox)
      : options_(options),
        store_(store),
        manifests_(manifests),
        mailbox_(mailbox),
        timer_(io_),
        manifest_events_(io_),
        config_events_(io_) {
    if (const auto node = store_.snapshot()->node; node != nullptr) at_start_ = *node;
  }

  // Runs until something ends the daemon.
  Result<> run() {
    if (const auto watching = watch_config(); !watching) return watching;
    watch_manifests();
    rescan_later();
    io_.run();
    return base::fail(ErrorCode::System, ending_);
  }

 private:
  Result<> watch_config() {
    if (options_.config_file.empty()) return {};
    config_watch_ = TRY(ConfigWatch::open(options_.config_file));
    config_events_.assign(::dup(config_watch_->fd()));
    wait_for_config();
    return {};
  }

  void wait_for_config() {
    config_events_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const auto& error) {
      if (error) return;
      const auto changed = config_watch_->drain();
      if (!changed) return end(changed.error().text);
      if (*changed) return end("content of the proxy server's configuration file was updated");
      wait_for_config();
    });
  }

  void watch_manifests() {
    auto watch = source::Watch::open(options_.manifests);
    if (!watch) {
      klog::error("Cannot watch the manifests, looking every 30 s instead, ignoring",
                  watch.error().text);
      return;
    }
    manifest_watch_.emplace(std::move(*watch));
    manifest_events_.assign(::dup(manifest_watch_->fd()));
    // Between the first reading and this watch something may have changed.
    refresh();
    wait_for_manifests();
  }

  void wait_for_manifests() {
    manifest_events_.async_wait(asio::posix::stream_descriptor::wait_read,
                                [this](const auto& error) {
                                  if (error) return;
                                  if (manifest_watch_->drain()) refresh();
                                  wait_for_manifests();
                                });
  }

  void rescan_later() {
    timer_.expires_after(kRescan);
    timer_.async_wait([this](const auto& error) {
      if (error) return;
      refresh();
      rescan_later();
    });
  }

  void refresh() {
    const auto start = std::chrono::steady_clock::now();
    auto report =
        manifest_watch_ ? manifests_.rescan(manifest_watch_->being_written()) : manifests_.rescan();
    for (const auto& one : report.reports)
      tell(one);
    const auto read = std::chrono::steady_clock::now();
    model::DirtySet dirty;
    for (auto& change : report.changes)
      dirty.merge(store_.fold(std::move(change)));
    if (dirty.empty()) return;
    if (dirty.node) check_node();
    Update update{store_.snapshot(), std::move(dirty)};
    klog::verbose(2, "Manifests changed",
                  {{"services", update.dirty.services.size()},
                   {"readMs", ms(read - start)},
                   {"foldMs", ms(std::chrono::steady_clock::now() - read)}});
    mailbox_.put(std::move(update));
  }

  // Parity: what was read from the Node at start stays in force; podCIDRs are reason to start anew.
  void check_node() {
    const auto node = store_.snapshot()->node;
    if (node->pod_cidrs != at_start_.pod_cidrs && options_.config.detect_local_mode == "NodeCIDR") {
      klog::info("PodCIDRs changed for the node", {{"node", node->name}});
      end("PodCIDRs changed for the node");
    }
    if (node->addresses != at_start_.addresses)
      klog::info("NodeIPs changed for the node", {{"node", node->name}});
  }

  void end(std::string why) {
    ending_ = std::move(why);
    io_.stop();
  }

  const config::Options& options_;
  model::Store& store_;
  source::Manifests& manifests_;
  event::Mailbox<Update>& mailbox_;
  asio::io_context io_{1};
  asio::steady_timer timer_;
  std::optional<ConfigWatch> config_watch_;
  std::optional<source::Watch> manifest_watch_;
  asio::posix::stream_descriptor manifest_events_;  // own copies of the watches' descriptors
  asio::posix::stream_descriptor config_events_;
  model::Node at_start_;
  std::string ending_;
};

// Which families to serve, primary one first.
Result<std::vector<net::Family>> choose_families(const NodeFacts& node) {
  const FamilySupport support = probe_families();
  if (!support.v4 && !support.v6) {
    return base::fail(ErrorCode::Unsupported,
                      "iptables is not available on this host : " + support.iptables_error);
  }
  for (const auto& notice : support.notices)
    klog::info(notice);
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

Result<std::vector<std::unique_ptr<backend::Backend>>> make_backends(const config::Config& config,
                                                                     const NodeFacts& node) {
  const auto families = TRY(choose_families(node));
  TRY(warn_about_configuration(config, node, families.size() == 2));
  std::vector<std::unique_ptr<backend::Backend>> backends;
  for (const auto family : families) {
    auto proxier = std::make_unique<iptables::Proxier>(iptables_settings(config, node, family));
    for (const auto& notice : proxier->probe())
      klog::info(notice, {{"ipFamily", net::name(family)}});
    if (TRY(proxier->allow_localhost())) {
      klog::info(
          "Setting route_localnet=1 to allow node-ports on localhost; to change this either "
          "disable "
          "iptables.localhostNodePorts (--iptables-localhost-nodeports) or set nodePortAddresses "
          "(--nodeport-addresses) to filter loopback addresses");
    }
    backends.push_back(std::move(proxier));
  }
  return backends;
}

// Mode iptables removes what mode nftables would have left.
void clean_other_modes() {
  for (const auto family : net::kFamilies) {
    const auto done = kernel::delete_nft_table(family, "kube-proxy");
    if (!done && done.error().code != ErrorCode::NotFound) {
      klog::verbose(2, "Could not remove rules of mode nftables, ignoring",
                    {{"err", done.error().text}});
    }
  }
}

Result<NodeFacts> find_node(const config::Config& config, const std::string& name,
                            const model::Node* object) {
  NodeFacts node = resolve_node(config, name, object, TRY(kernel::interface_addresses()));
  if (object == nullptr)
    klog::info("No Node object with this name, using the addresses of the interfaces",
               {{"node", name}});
  std::string ips;
  for (const auto& ip : node.ips)
    ips += (ips.empty() ? "" : " ") + ip.str();
  klog::info("Successfully retrieved NodeIPs", {{"NodeIPs", ips}});
  if (node.primary_undetermined) {
    klog::info(
        "Can't determine this node's IP, assuming loopback; if this is incorrect, please set the "
        "--bind-address flag");
  }
  return node;
}

Result<> check_options(const config::Options& options) {
  if (options.config.mode != "iptables") {
    return base::fail(ErrorCode::Unsupported,
                      "proxy mode \"" + options.config.mode +
                          "\" is not built into this version yet; mode iptables is");
  }
  if (options.manifests.empty()) {
    return base::fail(ErrorCode::Unsupported,
                      "the Kubernetes API as a source is not built into this version yet; give a "
                      "file or folder of manifests with --manifests");
  }
  // Without them there would be no Services, and all rules of an earlier run would go.
  if (::access(options.manifests.c_str(), R_OK) != 0)
    return base::fail_errno("manifests " + options.manifests);
  if (options.config.min_sync_period > SyncLoop::kMaxInterval) {
    return base::fail(ErrorCode::Invalid,
                      "sync-runner: maxInterval (1h0m0s) must be >= minInterval (" +
                          config::format_go_duration(options.config.min_sync_period) + ")");
  }
  return {};
}

Update read_all(source::Manifests& manifests, model::Store& store) {
  auto loaded = manifests.load();
  for (const auto& report : loaded.reports)
    tell(report);
  model::DirtySet dirty;
  for (auto& change : loaded.changes)
    dirty.merge(store.fold(std::move(change)));
  klog::info("Read the manifests", {{"services", store.snapshot()->services.size()}});
  return {store.snapshot(), std::move(dirty)};
}

Result<> tune_conntrack(const config::Config& config) {
  for (const auto& line : TRY(set_conntrack(config.conntrack)))
    klog::info(line);
  return {};
}

}  // namespace

Result<> run(const config::Options& options) {
  TRY(check_options(options));
  const config::Config& config = options.config;
  clean_other_modes();

  // source -> model
  const std::string name = TRY(node_name(config));
  model::Store store(name);
  source::Manifests manifests(options.manifests);
  Update first = read_all(manifests, store);

  // the node, and what is set on it
  const NodeFacts node = TRY(find_node(config, name, first.snapshot->node.get()));
  TRY_CONTEXT(tune_conntrack(config),
              "could not set conntrack parameters from kube-proxy configuration");
  auto backends = TRY(make_backends(config, node));
  if (options.init_only) {
    for (const auto& backend : backends) {
      klog::info("System initialized and --init-only specified",
                 {{"ipFamily", net::name(backend->family())}});
    }
    return {};
  }
  klog::info("Version info", {{"version", options.version}});
  if (const auto set = set_oom_score(config.oom_score_adj); !set) {
    klog::verbose(2, "Failed to set OOM score, ignoring", {{"err", set.error().text}});
  }

  // model -> plan -> backend -> kernel, on the sync thread
  event::Mailbox<Update> mailbox;
  SyncLoop sync(std::move(backends), {config.min_sync_period, config.sync_period}, mailbox);
  mailbox.put(std::move(first));
  const std::jthread sync_thread([&] { sync.run(); });

  const auto ended = Loop(options, store, manifests, mailbox).run();
  mailbox.close();
  return ended;
}

bool clean_up_everything() {
  bool clean = true;
  const auto complain = [&](const base::Error& error) {
    klog::error("Could not remove rules", error.text);
    clean = false;
  };
  for (const auto family : net::kFamilies) {
    if (const auto works = iptables::Programs(family).probe(); !works) {
      klog::info("No iptables support for family",
                 {{"ipFamily", net::name(family)}, {"error", works.error().text}});
      if (works.error().code == ErrorCode::Permission) clean = false;
      continue;
    }
    for (const auto& error : iptables::clean_up(family))
      complain(error);
  }
  for (const auto family : net::kFamilies) {
    const auto done = kernel::delete_nft_table(family, "kube-proxy");
    if (!done && done.error().code != ErrorCode::NotFound) complain(done.error());
  }
  return clean;
}

}  // namespace proxyd
