// Where the changes of a source go: into the store, and from there to the sync threads.
//
// Lives on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "daemon/update.h"
#include "event/mailbox.h"
#include "metrics/metrics.h"
#include "model/store.h"

namespace proxyd {

using Mailbox = std::shared_ptr<event::Mailbox<Update>>;

class Intake {
 public:
  struct Listeners {
    std::function<void(net::Family)> queued;  // there is something to do for a family
    std::function<void(std::string)> end;     // ends the daemon
    std::function<void(const model::Node&)>
        node_seen;  // this node's object, each time it has changed
  };
  Intake(const config::Config& config, const std::string& node_name, metrics::Metrics& metrics,
         Listeners listeners);

  // Folds them; hands on what that touched, once open. Returns how many Services it touched.
  size_t take(std::vector<model::Change> changes);

  // The source's state is complete: what was taken in so far becomes the first update.
  void complete();
  // The sync threads are there.
  void open(std::map<net::Family, Mailbox> mailboxes);

  model::SnapshotPtr snapshot() const { return store_.snapshot(); }

  // From now on, changes of the Node are compared with what it is now.
  void remember_node();

 private:
  model::DirtySet fold(model::Change change);
  void count_what_is_there();
  // `gone`: the family of a slice that is deleted.
  void count(const model::Change& change, std::optional<net::Family> gone);
  std::optional<net::Family> family_of(const model::SliceKey& key) const;
  void tell_node();
  void check_node();
  void hand_on();

  const config::Config& config_;
  model::Store store_;
  metrics::Metrics& metrics_;
  Listeners listeners_;
  model::DirtySet dirty_;  // since the last letter
  TriggerTimes triggers_;
  const TriggerTimes::Time started_ = std::chrono::system_clock::now();
  bool complete_ = false;
  bool handed_on_ = false;  // the first update
  std::map<net::Family, Mailbox> mailboxes_;
  bool node_remembered_ = false;
  model::Node node_at_start_;
};

}  // namespace proxyd
