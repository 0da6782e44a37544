#include "daemon/daemon.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <span>
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

using Mailbox = std::shared_ptr<event::Mailbox<Update>>;

// inotify is a hint: now and then the folder is looked through anyway.
constexpr std::chrono::seconds kRescan{30};

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

// Services that are not proxied, as kube-proxy words it.
void tell_skipped(const model::Change& change) {
  const auto* service = std::get_if<std::shared_ptr<const model::Service>>(&change);
  if (service == nullptr || (*service)->skip == model::SkipReason::None) return;
  const bool external_name = (*service)->type == model::ServiceType::ExternalName;
  klog::verbose(3,
                external_name ? "Skipping service due to Type=ExternalName"
                              : "Skipping service due to cluster IP",
                {{"service", (*service)->key.str()}});
}

model::DirtySet fold_all(std::vector<model::Change> changes, model::Store& store) {
  model::DirtySet dirty;
  for (auto& change : changes) {
    tell_skipped(change);
    dirty.merge(store.fold(std::move(change)));
  }
  return dirty;
}

// The loop thread: reads manifests, folds them into the store, and hands updates to the sync thread.
class Loop {
 public:
  Loop(const config::Options& options, model::Store& store, source::Manifests& manifests,
       const std::vector<Mailbox>& mailboxes)
      : options_(options),
        store_(store),
        manifests_(manifests),
        mailboxes_(mailboxes),
        timer_(io_),
        soon_(io_),
        manifest_events_(io_),
        config_events_(io_) {
    if (const auto node = store_.snapshot()->node; node != nullptr) at_start_ = *node;
  }

  // Runs until something ends the daemon.
  Result<> run(std::optional<ConfigWatch> config_watch) {
    config_watch_ = std::move(config_watch);
    if (config_watch_) {
      TRY(assign(config_events_, config_watch_->fd()));
      wait_for_config();
    }
    watch_manifests();
    rescan_later();
    io_.run();
    return base::fail(ErrorCode::System, ending_);
  }

 private:
  // Asio closes what it is given: it gets a copy.
  static Result<> assign(asio::posix::stream_descriptor& events, int fd) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return base::fail_errno("duplicate a descriptor");
    events.assign(copy);
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
    if (const auto assigned = assign(manifest_events_, manifest_watch_->fd()); !assigned) {
      return end(assigned.error().text);
    }
    // Between the first reading and this watch something may have changed.
    refresh();
    wait_for_manifests();
  }

  void wait_for_manifests() {
    manifest_events_.async_wait(asio::posix::stream_descriptor::wait_read,
                                [this](const auto& error) {
                                  if (error) return;
                                  if (manifest_watch_->drain()) refresh();
                                  tell_trouble();
                                  wait_for_manifests();
                                });
  }

  // Once for each: the watch may have run out of what the kernel allows.
  void tell_trouble() {
    if (manifest_watch_->trouble() == trouble_) return;
    trouble_ = manifest_watch_->trouble();
    if (!trouble_.empty())
      klog::warning("Changes may be seen late, up to 30 s, ignoring", {{"err", trouble_}});
  }

  void rescan_later() {
    timer_.expires_after(kRescan);
    timer_.async_wait([this](const auto& error) {
      if (error) return;
      refresh();
      rescan_later();
    });
  }

  void look_again_after(std::chrono::milliseconds time) {
    soon_.expires_after(time);
    soon_.async_wait([this](const auto& error) {
      if (!error) refresh();
    });
  }

  void refresh() {
    // Which files are being written must be known up to now, whoever asked for this look.
    if (manifest_watch_) manifest_watch_->drain();
    const auto start = std::chrono::steady_clock::now();
    auto report =
        manifest_watch_ ? manifests_.rescan(manifest_watch_->being_written()) : manifests_.rescan();
    for (const auto& one : report.reports)
      tell(one);
    if (report.look_again) look_again_after(*report.look_again);
    const auto read = std::chrono::steady_clock::now();
    model::DirtySet dirty = fold_all(std::move(report.changes), store_);
    if (dirty.empty()) return;
    if (dirty.node) check_node();
    Update update{store_.snapshot(), std::move(dirty)};
    klog::verbose(2, "Manifests changed",
                  {{"services", update.dirty.services.size()},
                   {"readMs", milliseconds(read - start)},
                   {"foldMs", milliseconds(std::chrono::steady_clock::now() - read)}});
    for (const auto& mailbox : mailboxes_)
      mailbox->put(update);
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
  const std::vector<Mailbox>& mailboxes_;
  asio::io_context io_{1};
  asio::steady_timer timer_;  // the next regular look
  asio::steady_timer soon_;   // a look that a reading asked for
  std::optional<ConfigWatch> config_watch_;
  std::optional<source::Watch> manifest_watch_;
  asio::posix::stream_descriptor manifest_events_;  // own copies of the watches' descriptors
  asio::posix::stream_descriptor config_events_;
  model::Node at_start_;
  std::string ending_;
  std::string trouble_;  // told
};

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

// NodeIPs=["10.0.0.1","fd00::1"]; a loopback address stands for one that is not known.
klog::Field ip_list(std::string_view key, std::span<const net::IpAddr> ips) {
  klog::Field field(key, "[");
  for (const auto& ip : ips) {
    if (ip.is_loopback()) continue;
    if (field.value.size() > 1) field.value += ',';
    field.value += '"' + ip.str() + '"';
  }
  field.value += ']';
  field.quoted = false;
  return field;
}

Result<NodeFacts> find_node(const config::Config& config, const std::string& name,
                            const model::Node* object) {
  NodeFacts node = resolve_node(config, name, object, TRY(kernel::interface_addresses()));
  if (object == nullptr)
    klog::info("No Node object with this name, using the addresses of the interfaces",
               {{"node", name}});
  klog::info("Successfully retrieved NodeIPs", {ip_list("NodeIPs", node.ips)});
  if (node.primary_undetermined) {
    klog::info(
        "Can't determine this node's IP, assuming loopback; if this is incorrect, please set the "
        "--bind-address flag");
  }
  return node;
}

Result<> check_options(const config::Options& options) {
  TRY(check_settings(options.config));
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

// The thread owns what it works with: when the daemon ends, nobody waits for a program that is
// still writing rules.
void start_sync_thread(std::unique_ptr<backend::Backend> backend, const config::Config& config,
                       Mailbox mailbox) {
  SyncLoop loop(std::move(backend), {config.min_sync_period, config.sync_period});
  std::thread([loop = std::move(loop), mailbox = std::move(mailbox)]() mutable {
    loop.run(*mailbox);
  }).detach();
}

Update read_all(source::Manifests& manifests, model::Store& store) {
  auto loaded = manifests.load();
  for (const auto& report : loaded.reports)
    tell(report);
  model::DirtySet dirty = fold_all(std::move(loaded.changes), store);
  klog::info("Read the manifests", {{"services", store.snapshot()->services.size()}});
  return {store.snapshot(), std::move(dirty)};
}

}  // namespace

Result<> run(const config::Options& options) {
  // From here on a written configuration file counts, even if the start takes long.
  std::optional<ConfigWatch> config_watch;
  if (!options.config_file.empty()) config_watch = TRY(ConfigWatch::open(options.config_file));
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
  TRY_CONTEXT(set_conntrack(config.conntrack),
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

  // model -> plan -> backend -> kernel, a thread for each family
  std::vector<Mailbox> mailboxes;
  for (auto& backend : backends) {
    mailboxes.push_back(std::make_shared<event::Mailbox<Update>>());
    start_sync_thread(std::move(backend), config, mailboxes.back());
    mailboxes.back()->put(first);
  }
  return Loop(options, store, manifests, mailboxes).run(std::move(config_watch));
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
