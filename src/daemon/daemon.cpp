#include "daemon/daemon.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>
#include <thread>

#include <boost/asio/post.hpp>

#include "config/go_duration.h"
#include "daemon/aftermath.h"
#include "daemon/api_source.h"
#include "daemon/backends.h"
#include "daemon/clean_up.h"
#include "daemon/config_watch.h"
#include "daemon/intake.h"
#include "daemon/loop.h"
#include "daemon/manifest_source.h"
#include "daemon/node_facts.h"
#include "daemon/node_setup.h"
#include "daemon/privileges.h"
#include "daemon/problems.h"
#include "daemon/rule_watch.h"
#include "daemon/servers.h"
#include "daemon/sync_loop.h"
#include "kernel/addresses.h"
#include "kernel/privileges.h"
#include "kernel/tcp_reset.h"
#include "log/log.h"
#include "metrics/metrics.h"
#include "serve/health.h"

namespace proxyd {
namespace {

using base::ErrorCode;
using base::Result;

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
  if (options.tcp_reset_after.count() < 0)
    return base::fail(ErrorCode::Invalid, "--tcp-reset-after must not be negative");
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
                                            Loop& loop, Intake& intake, metrics::Metrics& metrics) {
  if (!options.manifests.empty())
    return std::make_unique<ManifestSource>(loop, options.manifests, intake);
  return ApiSource::open(options, name, loop, intake, metrics);
}

// How often connections are counted, if that was asked for: as often as most people look.
constexpr std::chrono::seconds kCountPeriod{15};

// Parity: whoever is about to go away gets no traffic from load balancers.
bool is_eligible(const model::Node& node) {
  return !node.deleting && std::ranges::count(node.taints, "ToBeDeletedByClusterAutoscaler") == 0;
}

using Addresses = std::function<std::vector<net::IpAddr>()>;

// Reads the interfaces each time: addresses come and go.
Addresses node_port_addresses(const config::Config& config, const NodeFacts& node,
                              net::Family family) {
  return [range = node_port_range(config, node, family)] {
    const auto addresses = kernel::interface_addresses();
    if (addresses) return within(range, *addresses);
    klog::error("No addresses of this node, ignoring connections to node ports",
                addresses.error().text);
    return std::vector<net::IpAddr>();
  };
}

// Nothing unless it is asked for and can be had.
std::optional<ResetWatch> watch_for_resets(const config::Options& options, net::Family family,
                                           Addresses node_port_addresses) {
  // What a run before us, which may have had the flag, has left.
  if (const auto cleared = kernel::clear_tcp_resets(family); !cleared)
    klog::verbose(2, "Could not remove the table of TCP resets, ignoring",
                  {{"err", cleared.error().text}});
  // Mode userspace ends such connections itself: they have this node at both ends.
  if (options.tcp_reset_after.count() <= 0 || options.config.mode == "userspace")
    return std::nullopt;
  auto opened = kernel::TcpResetter::open(family);
  if (!opened) {
    klog::warning("Cannot reset TCP connections to removed endpoints, they are left to time out",
                  {{"ipFamily", net::name(family)}, {"err", opened.error().text}});
    return std::nullopt;
  }
  const auto resetter = std::make_shared<kernel::TcpResetter>(std::move(*opened));
  return ResetWatch(family, options.tcp_reset_after,
                    {.reset = [resetter](const ResetWatch::Doomed& doomed,
                                         size_t limit) { return resetter->reset(doomed, limit); },
                     .clear = [family] { return kernel::clear_tcp_resets(family); },
                     .linger = kernel::TcpResetter::kLinger,
                     .node_port_addresses = std::move(node_port_addresses)});
}

base::Result<kernel::Sweep> sweep_udp(net::Family family, const plan::FlowJudge& judge) {
  return kernel::sweep_flows(family, net::Protocol::Udp, [&](const net::Flow& flow) {
    const bool stale = judge.stale(flow);
    if (stale && klog::enabled(6)) {
      klog::verbose(6, "Deleting a stale connection",
                    {{"from", flow.original.source.str()},
                     {"sourcePort", flow.original.source_port},
                     {"to", flow.original.destination.str()},
                     {"port", flow.original.destination_port},
                     {"endpoint", flow.reply.source.str()}});
    }
    return stale;
  });
}

// How long a family may have something to do before it counts as unhealthy.
config::Duration patience(const config::Config& config) {
  return 2 * std::min(config.sync_period, config::Duration::max() / 2);
}

// A Service that asks for what it does not get.
void tell_problem(Source& source, const std::string& mode, const backend::Problem& problem) {
  klog::warning("A Service asks for something that it does not get",
                {{"service", problem.service.str()}, {"problem", problem.text}});
  source.record(
      {.regarding = {.kind = "Service", .ns = problem.service.ns, .name = problem.service.name},
       .type = kube::Event::Type::Warning,
       .reason = mode == "ipvs" ? "InvalidIPVSAnnotation" : "NotSupportedInUserspaceMode",
       .action = "SyncProxyRules",
       .note = problem.text});
}

// From any thread.
std::function<void(Problems)> report_to(ProblemBook& book, Loop& loop) {
  return [&book, &io = loop.io()](Problems found) {
    boost::asio::post(io, [&book, found = std::move(found)] { book.take(found); });
  };
}

// What all families share.
struct Shared {
  Loop& loop;
  const config::Options& options;
  const NodeFacts& node;
  Servers& servers;
  std::shared_ptr<metrics::Metrics> metrics;
  std::shared_ptr<serve::Health> health;
  ProblemBook& problems;
};

// What follows each sync of one family.
Aftermath aftermath_of(net::Family family, const Shared& shared) {
  const config::Config& config = shared.options.config;
  const Addresses addresses = node_port_addresses(config, shared.node, family);
  const auto sweep = [family](const plan::FlowJudge& judge) { return sweep_udp(family, judge); };
  using Sweep = decltype(Aftermath::Parts::sweep);
  return Aftermath(
      {.context = plan_context(config, shared.node, family),
       .node_port_addresses = addresses,
       .metrics = shared.metrics,
       .health = shared.health,
       .publish = shared.servers.serve_health_ports(shared.node, family),
       .sweep = config.mode == "userspace" ? Sweep() : Sweep(sweep),
       .counts_services = config.mode == "ipvs",
       .first_synced = [mode = config.mode, family] { clean_other_modes(mode, family); },
       .resets = watch_for_resets(shared.options, family, addresses)});
}

// Null if the mode cannot listen, or cannot do so now.
std::unique_ptr<backend::Watch> listen_to_others(backend::Backend& backend) {
  auto watch = backend.watch();
  if (watch) return std::move(*watch);
  klog::warning("Cannot hear of what others do to our rules, looking every syncPeriod instead",
                {{"ipFamily", net::name(backend.family())}, {"err", watch.error().text}});
  return nullptr;
}

bool can_count(const config::Config& config) {
  return config.mode == "iptables" || config.mode == "userspace";
}

bool heeds_annotations(const config::Config& config) {
  return config.mode == "ipvs" || config.mode == "userspace";
}

// The thread owns what it works with: when the daemon ends, nobody waits for a program that is
// still writing rules.
Mailbox start_sync_thread(std::unique_ptr<backend::Backend> backend, const Shared& shared) {
  const config::Config& config = shared.options.config;
  const bool counts = shared.options.per_service_metrics && can_count(config);
  const auto count = counts ? kCountPeriod : std::chrono::seconds(0);
  auto after = aftermath_of(backend->family(), shared);
  SyncLoop loop(std::move(backend),
                {.min_sync = config::min_sync_gap(config),
                 .sync = config.sync_period,
                 .count = count,
                 .mode = config.mode,
                 .problems = heeds_annotations(config) ? report_to(shared.problems, shared.loop)
                                                       : std::function<void(Problems)>()},
                shared.metrics, std::move(after));
  auto mailbox = std::make_shared<event::Mailbox<Update>>();
  std::thread([loop = std::move(loop), mailbox]() mutable { loop.run(*mailbox); }).detach();
  return mailbox;
}

// How the loop thread reaches the sync threads, and what it does for them.
struct Families {
  std::map<net::Family, Mailbox> mailboxes;
  std::vector<std::unique_ptr<RuleWatch>> watches;
};

Result<Families> start_families(std::vector<std::unique_ptr<backend::Backend>> backends, Loop& loop,
                                const Shared& shared) {
  Families families;
  for (auto& backend : backends) {
    const net::Family family = backend->family();
    auto others = listen_to_others(*backend);
    const Mailbox mailbox = start_sync_thread(std::move(backend), shared);
    families.mailboxes[family] = mailbox;
    if (others == nullptr) continue;
    families.watches.push_back(std::make_unique<RuleWatch>(loop, std::move(others), mailbox));
    TRY(families.watches.back()->start());
  }
  return families;
}

// Whatever is large, the messages of a first sync for one, has pages of its own, which go back when it is freed. By itself
// the C library learns from the first such buffer to keep the next ones in the arena of their thread, and what is free at
// the end of an arena stays there.
void return_large_buffers() {
  constexpr int kLarge = 128 * 1024;
  ::mallopt(M_MMAP_THRESHOLD, kLarge);
}

}  // namespace

Result<> run(const config::Options& options) {
  return_large_buffers();
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

  // source -> model
  const std::string name = TRY(node_name(config));
  const auto metrics = std::make_shared<metrics::Metrics>(config.mode);
  const auto health = std::make_shared<serve::Health>(patience(config));
  Intake intake(
      config, name, *metrics,
      {.queued =
           [&](net::Family family) {
             health->queued(family);
             metrics->sync_queued(family);
           },
       .end = [&](std::string why) { loop.end(std::move(why)); },
       .node_seen =
           [&](const model::Node& node) { health->set_node_eligible(is_eligible(node)); }});
  const auto source = TRY(open_source(options, name, loop, intake, *metrics));

  if (const auto limit = kernel::raise_descriptor_limit(); !limit)
    klog::verbose(2, "Could not raise the limit of open files, ignoring",
                  {{"err", limit.error().text}});
  // Up before the API server is waited for, so that somebody can ask what we are doing.
  std::unique_ptr<Servers> servers;
  if (!options.init_only)
    servers = TRY(Servers::start({options, name, loop, *source, metrics, health}));

  // the node, and what is set on it
  TRY(source->find_node());
  const NodeFacts node = TRY(facts_of(options, name, intake.snapshot()->node.get()));
  // Without a cluster nobody else could say so.
  if (!options.manifests.empty() && intake.snapshot()->node == nullptr)
    health->set_node_eligible(true);
  intake.remember_node();
  TRY_CONTEXT(set_conntrack(config.conntrack),
              "could not set conntrack parameters from kube-proxy configuration");
  auto backends = TRY(make_backends(options, node));
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

  drop_privileges(options);

  if (options.per_service_metrics && !can_count(config)) {
    klog::warning(
        "--per-service-metrics has no effect in this mode, only in modes iptables and userspace",
        {{"mode", config.mode}});
  }

  // model -> plan -> backend -> kernel, a thread for each family
  ProblemBook problems(
      [&](const backend::Problem& problem) { tell_problem(*source, config.mode, problem); });
  const Shared shared{loop, options, node, *servers, metrics, health, problems};
  auto families = TRY(start_families(std::move(backends), loop, shared));
  intake.open(std::move(families.mailboxes));
  source->start();
  if (config.mode == "ipvs")
    source->record(
        node_event(kube::Event::Type::Warning, "IPVSDeprecation", name, kIpvsDeprecated));
  source->record(node_event(kube::Event::Type::Normal, "Starting", name, ""));
  return loop.run();
}

}  // namespace proxyd
