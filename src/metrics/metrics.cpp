#include "metrics/metrics.h"

#include <mutex>
#include <utility>

#include "metrics/bounds.h"
#include "metrics/constants.h"
#include "metrics/process.h"
#include "metrics/rows.h"

namespace metrics {
namespace {

Modes parse_mode(std::string_view mode) {
  if (mode == "nftables") return Nftables;
  return mode == "ipvs" ? Ipvs : Iptables;
}

prometheus::Labels of(net::Family family) {
  return {{"ip_family", std::string(net::name(family))}};
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

double unix_seconds(Metrics::Time time) { return seconds(time.time_since_epoch()); }

const Constants::Row kBuildInfo{
    "kubernetes_build_info",
    "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, "
    "git tree state, build date, Go version, and compiler from which Kubernetes was built, and "
    "platform on which it is running."};
const Constants::Row kFeatureEnabled{
    "kubernetes_feature_enabled",
    "[BETA] This metric records the data about the stage and enablement of a k8s feature."};
const Constants::Row kRegistered{
    "registered_metrics_total",
    "[BETA] The count of registered metrics broken by stability level and deprecation version.",
    prometheus::MetricType::Counter};

// Connections of all Services, by family.
class Connections {
 public:
  void replace(net::Family family, std::vector<ServiceConnections> all) {
    const std::lock_guard lock(mutex_);
    by_family_[family] = std::move(all);
  }
  void collect(std::vector<prometheus::MetricFamily>& families) const {
    prometheus::MetricFamily shown{"kubeproxy_service_connections_total",
                                   "[ALPHA] Connections to a port of a Service",
                                   prometheus::MetricType::Counter,
                                   {}};
    const std::lock_guard lock(mutex_);
    for (const auto& [family, all] : by_family_) {
      for (const auto& one : all)
        shown.metric.push_back(sample(family, one));
    }
    families.push_back(std::move(shown));
  }

 private:
  static prometheus::ClientMetric sample(net::Family family, const ServiceConnections& one) {
    prometheus::ClientMetric metric;
    metric.label = {{"ip_family", std::string(net::name(family))},
                    {"namespace", one.ns},
                    {"service", one.service},
                    {"port", one.port},
                    {"protocol", one.protocol}};
    metric.counter.value = static_cast<double>(one.total);
    return metric;
  }

  mutable std::mutex mutex_;
  std::map<net::Family, std::vector<ServiceConnections>> by_family_;
};

// A counter of the kernel, by name.
struct PacketCounter {
  std::string name;
  std::string help;
  Metrics::ReadCounter read;

  void collect(std::vector<prometheus::MetricFamily>& families) const {
    const auto packets = read ? read() : std::nullopt;
    if (!packets) return;
    prometheus::ClientMetric sample;
    sample.counter.value = static_cast<double>(*packets);
    families.push_back({name, help, prometheus::MetricType::Counter, {std::move(sample)}});
  }
};

}  // namespace

// To be read as a table. New metrics are new rows, and something above that tells them.
struct Metrics::Rows {
  explicit Rows(Modes mode) : table{.mode = mode} {}

  Table table;

  Histograms sync_duration{table, AllModes, "kubeproxy_sync_proxy_rules_duration_seconds",
                           "[ALPHA] SyncProxyRules latency in seconds", sync_bounds()};
  Histograms full_sync_duration{
      table, Iptables | Nftables, "kubeproxy_sync_full_proxy_rules_duration_seconds",
      "[ALPHA] SyncProxyRules latency in seconds for full resyncs", sync_bounds()};
  Histograms partial_sync_duration{
      table, Iptables | Nftables, "kubeproxy_sync_partial_proxy_rules_duration_seconds",
      "[ALPHA] SyncProxyRules latency in seconds for partial resyncs", sync_bounds()};
  Gauges last_sync{table, AllModes, "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
                   "[ALPHA] The last time proxy rules were successfully synced"};
  Gauges last_queued{table, AllModes, "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
                     "[ALPHA] The last time a sync of proxy rules was queued"};

  Gauges endpoints_pending{table, AllModes, "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
                           "[ALPHA] Pending proxy rules Endpoint changes", Labelled::No};
  Counters endpoints_changed{table, AllModes, "kubeproxy_sync_proxy_rules_endpoint_changes_total",
                             "[ALPHA] Cumulative proxy rules Endpoint changes", Labelled::No};
  Gauges services_pending{table, AllModes, "kubeproxy_sync_proxy_rules_service_changes_pending",
                          "[ALPHA] Pending proxy rules Service changes", Labelled::No};
  Counters services_changed{table, AllModes, "kubeproxy_sync_proxy_rules_service_changes_total",
                            "[ALPHA] Cumulative proxy rules Service changes", Labelled::No};

  Gauges rules_total{table, Iptables, "kubeproxy_sync_proxy_rules_iptables_total",
                     "[ALPHA] Total number of iptables rules owned by kube-proxy"};
  Gauges rules_written{table, Iptables, "kubeproxy_sync_proxy_rules_iptables_last",
                       "[ALPHA] Number of iptables rules written by kube-proxy in last sync"};
  Counters restore_failures{table, Iptables | Ipvs,
                            "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
                            "[ALPHA] Cumulative proxy iptables restore failures"};
  Counters partial_restore_failures{
      table, Iptables, "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
      "[ALPHA] Cumulative proxy iptables partial restore failures"};

  Counters nftables_failures{table, Nftables,
                             "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
                             "[ALPHA] Cumulative proxy nftables sync failures"};
  Counters nftables_cleanup_failures{table, Nftables,
                                     "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
                                     "[ALPHA] Cumulative proxy nftables cleanup failures"};

  Histograms programming{table, AllModes, "kubeproxy_network_programming_duration_seconds",
                         "[ALPHA] In Cluster Network Programming Latency in seconds",
                         programming_bounds()};
  Gauges no_local_endpoints{table, AllModes, "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
                            "[ALPHA] Number of services with a Local traffic policy and no "
                            "endpoints"};
  Histograms conntrack_duration{
      table, AllModes, "kubeproxy_conntrack_reconciler_sync_duration_seconds",
      "[ALPHA] ReconcileConntrackFlowsLatency latency in seconds", sync_bounds()};
  Counters conntrack_deleted{table, AllModes,
                             "kubeproxy_conntrack_reconciler_deleted_entries_total",
                             "[ALPHA] Cumulative conntrack flows deleted by conntrack reconciler"};

  Counters healthz{table, AllModes, "kubeproxy_proxy_healthz_total",
                   "[ALPHA] Cumulative proxy healthz HTTP status"};
  Counters livez{table, AllModes, "kubeproxy_proxy_livez_total",
                 "[ALPHA] Cumulative proxy livez HTTP status"};

  // Of the library that kube-proxy uses. There is nothing for them to count.
  Counters hidden{table, AllModes, "hidden_metrics_total", "[BETA] The count of hidden metrics.",
                  Labelled::No};
  Counters disabled{table, AllModes, "disabled_metrics_total",
                    "[BETA] The count of disabled metrics.", Labelled::No};
  Counters unexpected{
      table, AllModes, "cardinality_enforcement_unexpected_categorizations_total",
      "[ALPHA] The count of unexpected categorizations during cardinality enforcement.",
      Labelled::No};

  // Ours.
  Histograms stage_duration{table, AllModes, "kubeproxy_sync_stage_duration_seconds",
                            "[ALPHA] Time that one stage of a sync took", stage_bounds()};
  Gauges dirty{table, AllModes, "kubeproxy_dirty_services",
               "[ALPHA] Services that the next sync has to look at"};
  Counters drift{table, AllModes, "kubeproxy_kernel_drift_total",
                 "[ALPHA] Cumulative objects of the kernel that were found to differ from what "
                 "had been written"};

  Connections connections;
  PacketCounter invalid_dropped{
      "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
      "[ALPHA] packets dropped by iptables to work around conntrack problems",
      {}};
  PacketCounter localhost_accepted{
      "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
      "[ALPHA] Number of packets accepted on nodeports of loopback interface",
      {}};
  Constants constants;
};

Metrics::Metrics(std::string_view mode, std::function<Time()> clock)
    : clock_(std::move(clock)),
      started_(clock_()),
      rows_(std::make_unique<Rows>(parse_mode(mode))),
      api_(rows_->table, clock_) {
  for (const auto& [stability, count] : rows_->table.by_stability) {
    rows_->constants.set(kRegistered, {{"stability_level", stability}, {"deprecated_version", ""}},
                         count);
  }
}

Metrics::~Metrics() = default;

// Parity: what is pending is shown for both families together, and the first to sync clears it.
// Where kube-proxy counts a Service that has changed twice once, we count twice.
void Metrics::service_changed(size_t families) {
  rows_->services_changed.add({}, static_cast<double>(families));
  rows_->services_pending.add({}, 1);
}

void Metrics::endpoints_changed() {
  rows_->endpoints_changed.add({});
  rows_->endpoints_pending.add({}, 1);
}

void Metrics::sync_queued(net::Family family) {
  rows_->last_queued.set(of(family), unix_seconds(clock_()));
}

void Metrics::sync_started(net::Family) {
  rows_->endpoints_pending.set({}, 0);
  rows_->services_pending.set({}, 0);
}

void Metrics::sync_finished(const SyncRun& run) {
  const auto labels = of(run.family);
  const double took = seconds(run.duration);
  rows_->sync_duration.observe(labels, took);
  (run.full ? rows_->full_sync_duration : rows_->partial_sync_duration).observe(labels, took);
  if (run.ok) {
    rows_->last_sync.set(labels, unix_seconds(clock_()));
    return;
  }
  // A sync of iptables fails in one of its programs, whichever: all count as a restore.
  rows_->restore_failures.add(labels);
  rows_->nftables_failures.add(labels);
  if (!run.full) rows_->partial_restore_failures.add(labels);
}

void Metrics::iptables_rules(net::Family family, std::string_view table, const RuleCount& count) {
  auto labels = of(family);
  labels["table"] = table;
  rows_->rules_total.set(labels, static_cast<double>(count.total));
  rows_->rules_written.set(labels, static_cast<double>(count.written));
}

void Metrics::network_programmed(net::Family family, std::chrono::nanoseconds since) {
  rows_->programming.observe(of(family), seconds(since));
}

void Metrics::no_local_endpoints(net::Family family, size_t internal, size_t external) {
  auto labels = of(family);
  labels["traffic_policy"] = "internal";
  rows_->no_local_endpoints.set(labels, static_cast<double>(internal));
  labels["traffic_policy"] = "external";
  rows_->no_local_endpoints.set(labels, static_cast<double>(external));
}

void Metrics::nftables_cleanup_failed(net::Family family, size_t count) {
  if (count > 0) rows_->nftables_cleanup_failures.add(of(family), static_cast<double>(count));
}

void Metrics::conntrack_reconciled(net::Family family, std::chrono::nanoseconds duration,
                                   size_t deleted) {
  rows_->conntrack_duration.observe(of(family), seconds(duration));
  rows_->conntrack_deleted.add(of(family), static_cast<double>(deleted));
}

void Metrics::healthz_answered(int status) {
  rows_->healthz.add({{"code", std::to_string(status)}});
}

void Metrics::livez_answered(int status) { rows_->livez.add({{"code", std::to_string(status)}}); }

void Metrics::count_packets(ReadCounter invalid_dropped, ReadCounter localhost_accepted) {
  if ((rows_->table.mode & Iptables) == 0) return;
  rows_->invalid_dropped.read = std::move(invalid_dropped);
  rows_->localhost_accepted.read = std::move(localhost_accepted);
}

void Metrics::sync_stage(net::Family family, std::string_view stage,
                         std::chrono::nanoseconds duration) {
  auto labels = of(family);
  labels["stage"] = stage;
  rows_->stage_duration.observe(labels, seconds(duration));
}

void Metrics::dirty_services(net::Family family, size_t count) {
  rows_->dirty.set(of(family), static_cast<double>(count));
}

void Metrics::kernel_drifted(net::Family family, size_t count) {
  rows_->drift.add(of(family), static_cast<double>(count));
}

void Metrics::service_connections(net::Family family, std::vector<ServiceConnections> all) {
  rows_->connections.replace(family, std::move(all));
}

void Metrics::build_info(const std::map<std::string, std::string>& labels) {
  rows_->constants.set(kBuildInfo, labels, 1);
}

void Metrics::feature_enabled(std::string_view gate, std::string_view stage, bool enabled) {
  rows_->constants.set(kFeatureEnabled,
                       {{"name", std::string(gate)}, {"stage", std::string(stage)}},
                       enabled ? 1 : 0);
}

std::string Metrics::show(Format format) const {
  auto families = rows_->table.registry.Collect();
  for (auto& family : process_families())
    families.push_back(std::move(family));
  rows_->connections.collect(families);
  rows_->invalid_dropped.collect(families);
  rows_->localhost_accepted.collect(families);
  api_.collect(families);
  const auto constants = rows_->constants.written(format);
  return write(std::move(families), format, *constants);
}

}  // namespace metrics
