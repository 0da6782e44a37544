// What the loop thread says to a sync thread. Values that merge: a slow reader finds one combined update.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "model/store.h"
#include "net/ip.h"

namespace proxyd {

// When the changes happened that are to be programmed, by the annotation of the EndpointSlices that tell of them.
class TriggerTimes {
 public:
  using Time = std::chrono::sys_time<std::chrono::nanoseconds>;

  void add(net::Family family, const model::ServiceKey& key, Time time) {
    services_[{family, key}].times.push_back(time);
  }
  // Parity: when a slice goes, so do the times of its Service.
  void forget(net::Family family, const model::ServiceKey& key) {
    services_[{family, key}] = {.forgotten = true, .times = {}};
  }

  void merge(TriggerTimes later);

  std::vector<Time> of(net::Family family) const;

 private:
  struct Times {
    bool forgotten = false;  // those before do not count
    std::vector<Time> times;
  };
  std::map<std::pair<net::Family, model::ServiceKey>, Times> services_;
};

// The newest snapshot, and what differs from the one before; and whether somebody else has changed the rules.
struct Update {
  model::SnapshotPtr snapshot{};  // null: only the rules were disturbed
  model::DirtySet dirty{};
  TriggerTimes triggers{};
  backend::Disturbance disturbance = backend::Disturbance::None;

  void merge(Update later) {
    if (later.snapshot != nullptr) snapshot = std::move(later.snapshot);
    dirty.merge(std::move(later.dirty));
    triggers.merge(std::move(later.triggers));
    disturbance = std::max(disturbance, later.disturbance);
  }
};

}  // namespace proxyd
