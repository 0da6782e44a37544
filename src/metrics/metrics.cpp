#include "metrics/metrics.h"

#include "metrics/exposition.h"
#include "metrics/process.h"
#include "metrics/rows.h"

namespace metrics {
namespace {

// E15: 0.001, 0.002, 0.004 ... 16.384 seconds.
std::vector<double> sync_bounds() {
  std::vector<double> bounds;
  double bound = 0.001;
  for (int i = 0; i < 15; ++i, bound *= 2)
    bounds.push_back(bound);
  return bounds;
}

Modes parse_mode(std::string_view mode) {
  if (mode == "nftables") return Nftables;
  return mode == "ipvs" ? Ipvs : Iptables;
}

prometheus::Labels of(net::Family family) {
  return {{"ip_family", std::string(net::name(family))}};
}

double unix_seconds(Metrics::Time time) {
  const std::chrono::nanoseconds since = time.time_since_epoch();
  return static_cast<double>(since.count()) / 1e9;
}

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

  Gauges build_info{
      table, AllModes, "kubernetes_build_info",
      "[BETA] A metric with a constant '1' value labeled by major, minor, git version, "
      "git commit, git tree state, build date, Go version, and compiler from which "
      "Kubernetes was built, and platform on which it is running."};
  Gauges feature_enabled{
      table, AllModes, "kubernetes_feature_enabled",
      "[BETA] This metric records the data about the stage and enablement of a k8s feature."};
};

Metrics::Metrics(std::string_view mode, std::function<Time()> clock)
    : clock_(std::move(clock)),
      started_(clock_()),
      rows_(std::make_unique<Rows>(parse_mode(mode))) {}

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
  const double seconds = std::chrono::duration<double>(run.duration).count();
  rows_->sync_duration.observe(labels, seconds);
  (run.full ? rows_->full_sync_duration : rows_->partial_sync_duration).observe(labels, seconds);
  if (run.ok) {
    rows_->last_sync.set(labels, unix_seconds(clock_()));
    return;
  }
  // A sync fails in the programs of iptables, whichever of them: all count as a restore.
  rows_->restore_failures.add(labels);
  if (!run.full) rows_->partial_restore_failures.add(labels);
}

void Metrics::iptables_rules(net::Family family, std::string_view table, const RuleCount& count) {
  auto labels = of(family);
  labels["table"] = table;
  rows_->rules_total.set(labels, static_cast<double>(count.total));
  rows_->rules_written.set(labels, static_cast<double>(count.written));
}

void Metrics::build_info(const std::map<std::string, std::string>& labels) {
  rows_->build_info.set(labels, 1);
}

void Metrics::feature_enabled(std::string_view gate, std::string_view stage, bool enabled) {
  rows_->feature_enabled.set({{"name", std::string(gate)}, {"stage", std::string(stage)}},
                             enabled ? 1 : 0);
}

std::string Metrics::text() const {
  auto families = rows_->table.registry.Collect();
  for (auto& family : process_families())
    families.push_back(std::move(family));
  return write_text(std::move(families));
}

}  // namespace metrics
