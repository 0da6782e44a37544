#include "daemon/daemon.h"

#include <unistd.h>

#include <optional>
#include <span>
#include <thread>

#include "backend/iptables/proxier.h"
#include "config/go_duration.h"
#include "daemon/api_source.h"
#include "daemon/backends.h"
#include "daemon/config_watch.h"
#include "daemon/intake.h"
#include "daemon/loop.h"
#include "daemon/manifest_source.h"
#include "daemon/node_facts.h"
#include "daemon/node_setup.h"
#include "daemon/sync_loop.h"
#include "kernel/netfilter.h"
#include "log/log.h"
#include "metrics/metrics.h"
#include "serve/metrics_pages.h"
#include "serve/metrics_server.h"

namespace proxyd {
namespace {

using base::ErrorCode;
using base::Result;

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

// Without an API server, the addresses of the interfaces stand in for those of a Node.
Result<NodeFacts> facts_of(const config::Options& options, const std::string& name,
                           const model::Node* object) {
  const bool may_guess = !options.manifests.empty();
  std::vector<kernel::InterfaceAddress> addresses;
  if (may_guess) addresses = TRY(kernel::interface_addresses());
  NodeFacts node = resolve_node(options.config, name, object, addresses);
  if (object == nullptr && may_guess)
    klog::info("No Node object with this name, using the addresses of the interfaces",
               {{"node", name}});
  if (may_guess || (object != nullptr && !object->addresses.empty()))
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
  // Without them there would be no Services, and all rules of an earlier run would go.
  if (!options.manifests.empty() && ::access(options.manifests.c_str(), R_OK) != 0)
    return base::fail_errno("manifests " + options.manifests);
  if (options.config.min_sync_period > SyncLoop::kMaxInterval) {
    return base::fail(ErrorCode::Invalid,
                      "sync-runner: maxInterval (1h0m0s) must be >= minInterval (" +
                          config::format_go_duration(options.config.min_sync_period) + ")");
  }
  return {};
}

// A configuration file that is written anew ends the daemon.
class ConfigEnds {
 public:
  ConfigEnds(Loop& loop, ConfigWatch watch)
      : watch_(std::move(watch)), events_(loop, [this, &loop] {
          const auto changed = watch_.drain();
          if (!changed) loop.end(changed.error().text);
          if (changed && *changed)
            loop.end("content of the proxy server's configuration file was updated");
        }) {}

  Result<> start() { return events_.watch(watch_.fd()); }

 private:
  ConfigWatch watch_;
  Readable events_;
};

Result<std::unique_ptr<Source>> open_source(const config::Options& options, const std::string& name,
                                            Loop& loop, Intake& intake) {
  if (!options.manifests.empty())
    return std::make_unique<ManifestSource>(loop, options.manifests, intake);
  return ApiSource::open(options, name, loop, intake);
}

// About this node.
kube::Event node_event(kube::Event::Type type, const std::string& reason, const std::string& node,
                       const std::string& note) {
  return {.regarding = {.kind = "Node", .name = node},
          .type = type,
          .reason = reason,
          .action = "StartKubeProxy",
          .note = note};
}

Result<std::unique_ptr<serve::PatientServer>> start_server(const config::Options& options,
                                                           const std::string& name,
                                                           metrics::Metrics& metrics, Loop& loop,
                                                           Source& source) {
  serve::describe_process(metrics, options);
  auto server = serve::start_metrics_server(loop.io().get_executor(), {metrics, options.config});
  if (!server) {
    source.record(node_event(kube::Event::Type::Warning, "FailedToStartMetricServer", name,
                             server.error().text));
    source.flush_events();
  }
  return server;
}

// The thread owns what it works with: when the daemon ends, nobody waits for a program that is
// still writing rules.
void start_sync_thread(std::unique_ptr<backend::Backend> backend, const config::Config& config,
                       std::shared_ptr<metrics::Metrics> metrics, Mailbox mailbox) {
  SyncLoop loop(std::move(backend), {config.min_sync_period, config.sync_period},
                std::move(metrics));
  std::thread([loop = std::move(loop), mailbox = std::move(mailbox)]() mutable {
    loop.run(*mailbox);
  }).detach();
}

}  // namespace

Result<> run(const config::Options& options) {
  // Not destroyed before the process ends: that would wait for a name lookup that hangs. What uses it is
  // destroyed first, at the end of this function, and the loop never runs again.
  static Loop loop;
  // From here on a written configuration file counts, even if the start takes long.
  std::optional<ConfigEnds> config_ends;
  if (!options.config_file.empty()) {
    config_ends.emplace(loop, TRY(ConfigWatch::open(options.config_file)));
    TRY(config_ends->start());
  }
  TRY(check_options(options));
  const config::Config& config = options.config;
  clean_other_modes();

  // source -> model
  const std::string name = TRY(node_name(config));
  const auto metrics = std::make_shared<metrics::Metrics>(config.mode);
  Intake intake(config, name, *metrics, [&](std::string why) { loop.end(std::move(why)); });
  const auto source = TRY(open_source(options, name, loop, intake));

  // Up before the API server is waited for, so that somebody can ask what we are doing.
  std::unique_ptr<serve::PatientServer> server;
  if (!options.init_only) server = TRY(start_server(options, name, *metrics, loop, *source));

  // the node, and what is set on it
  TRY(source->find_node());
  const NodeFacts node = TRY(facts_of(options, name, intake.snapshot()->node.get()));
  intake.remember_node();
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
  std::map<net::Family, Mailbox> mailboxes;
  for (auto& backend : backends) {
    const auto& mailbox = mailboxes[backend->family()] = std::make_shared<event::Mailbox<Update>>();
    start_sync_thread(std::move(backend), config, metrics, mailbox);
  }
  intake.open(std::move(mailboxes));
  source->start();
  source->record(node_event(kube::Event::Type::Normal, "Starting", name, ""));
  return loop.run();
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
