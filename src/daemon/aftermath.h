// What follows a sync that succeeded, besides the rules: health, health-check node ports, metrics, tracked
// connections that lead nowhere any more, and what another mode has left.
//
// One for each family; lives on its sync thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/result.h"
#include "daemon/reset_watch.h"
#include "daemon/update.h"
#include "kernel/conntrack.h"
#include "metrics/metrics.h"
#include "plan/flows.h"
#include "plan/summary.h"
#include "serve/health.h"
#include "serve/service_health.h"

namespace proxyd {

// A sync that succeeded, and what has changed since the last one that did.
struct Synced {
  const model::SnapshotPtr& snapshot;
  const model::DirtySet& dirty;
  const TriggerTimes& triggers;
};

class Aftermath {
 public:
  using Wall = std::chrono::system_clock::time_point;

  struct Parts {
    plan::Context context;  // but for the zone, which the snapshot knows
    bool node_ports_everywhere = true;
    std::vector<net::Cidr> node_port_cidrs{};  // if not everywhere
    std::shared_ptr<metrics::Metrics> metrics;
    std::shared_ptr<serve::Health> health;
    // After each sync; the same pointer as before if nothing has changed.
    std::function<void(std::shared_ptr<const serve::HealthPorts>)> publish;
    // Deletes the connections that are stale.
    std::function<base::Result<kernel::Sweep>(const plan::FlowJudge&)> sweep;
    // Once, after the first sync.
    std::function<void()> first_synced = [] {};
    std::optional<ResetWatch> resets{};
    std::function<Wall()> clock = &std::chrono::system_clock::now;
  };

  // The family counts as up to date from here on, until something is queued.
  explicit Aftermath(Parts parts);

  // There is something to do.
  void queued();
  void synced(const Synced& sync, ResetWatch::Time now);

  // What has to wait: when run() has something to do, if it ever has.
  std::optional<ResetWatch::Time> next() const;
  void run(ResetWatch::Time now);

 private:
  void observe_latencies(const TriggerTimes& triggers);
  // Takes in what has changed. True: a Service that has changed has or had a UDP port.
  bool take_in(const Synced& sync);
  bool take_in(const model::ServiceKey& key, const model::ServiceEntry* entry);
  std::vector<net::IpAddr> node_port_addresses() const;
  void show_ports();
  // False: it must be tried again.
  bool clean_flows(const model::Snapshot& now);

  Parts parts_;
  bool synced_ = false;  // once, at least
  // What tracked connections were last compared with; null at start.
  model::SnapshotPtr swept_;
  bool sweep_owed_ = false;
  std::map<model::ServiceKey, plan::ServiceSummary> summaries_;  // of those with something to say
  size_t internal_without_local_ = 0;                            // sums over summaries_
  size_t external_without_local_ = 0;
  std::shared_ptr<const serve::HealthPorts> ports_ = std::make_shared<serve::HealthPorts>();
  bool ports_changed_ = false;
};

}  // namespace proxyd
