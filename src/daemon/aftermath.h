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
  using Time = ResetWatch::Time;

  // A clean-up of connections that failed is tried again after this, or with the next sync.
  static constexpr std::chrono::seconds kSweepAgain{30};

  struct Parts {
    plan::Context context;  // but for the zone, which the snapshot knows
    // The addresses of this node where node ports answer.
    std::function<std::vector<net::IpAddr>()> node_port_addresses = [] {
      return std::vector<net::IpAddr>();
    };
    std::shared_ptr<metrics::Metrics> metrics;
    std::shared_ptr<serve::Health> health;
    // After each sync; the same pointer as before if nothing has changed.
    std::function<void(std::shared_ptr<const serve::HealthPorts>)> publish;
    // Deletes the connections that are stale. Empty: that is done by the mode itself.
    std::function<base::Result<kernel::Sweep>(const plan::FlowJudge&)> sweep{};
    // Services without a local endpoint are counted, not their ports.
    bool counts_services = false;
    // Once, after the first sync.
    std::function<void()> first_synced = [] {};
    std::optional<ResetWatch> resets{};
    std::function<Wall()> clock = &std::chrono::system_clock::now;
  };

  // The family counts as up to date from here on, until something is queued.
  explicit Aftermath(Parts parts);

  // There is something to do.
  void queued();
  void synced(const Synced& sync, Time now);

  // What has to wait: when run() has something to do, if it ever has.
  std::optional<Time> next() const;
  void run(Time now);

 private:
  void observe_latencies(const TriggerTimes& triggers);
  // Takes in what has changed. True: a Service that has changed has or had a UDP port.
  bool take_in(const Synced& sync);
  bool take_in(const model::ServiceKey& key, const model::ServiceEntry* entry);
  void show_ports();
  // Does a clean-up that is owed.
  void settle(Time now);
  // False: it must be tried again.
  bool clean_flows();

  Parts parts_;
  bool synced_ = false;  // once, at least
  model::SnapshotPtr programmed_;
  model::SnapshotPtr swept_;  // what tracked connections were last compared with; null at start
  bool sweep_owed_ = false;
  Time sweep_again_;
  std::map<model::ServiceKey, plan::ServiceSummary> summaries_;  // of those with something to say
  size_t internal_without_local_ = 0;                            // sums over summaries_
  size_t external_without_local_ = 0;
  std::shared_ptr<const serve::HealthPorts> ports_ = std::make_shared<serve::HealthPorts>();
  bool ports_changed_ = false;
};

}  // namespace proxyd
