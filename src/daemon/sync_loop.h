// The sync thread of one IP family: takes what the loop thread has put into its mailbox and brings
// the kernel in line.
//
// Families have a thread each, so that a program which hangs for one does not keep the other from
// being served.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "daemon/aftermath.h"
#include "daemon/mending.h"
#include "daemon/problems.h"
#include "daemon/schedule.h"
#include "daemon/update.h"
#include "event/mailbox.h"
#include "log/log.h"
#include "metrics/metrics.h"
#include "model/store.h"

namespace proxyd {

class SyncLoop {
 public:
  using Time = Schedule::Time;

  // A run at least this often, and a full one.
  static constexpr std::chrono::hours kMaxInterval{1};

  struct Settings {
    Schedule::Duration min_sync;
    Schedule::Duration sync;     // retry after a failure, and how often to look for flushed rules
    Schedule::Duration count{};  // how often to count connections; 0: never
    std::string mode = "iptables";
    // What Services do not get of what they ask for, of those that a sync has looked at.
    std::function<void(Problems)> problems{};  // empty: nobody listens
  };

  SyncLoop(std::unique_ptr<backend::Backend> backend, Settings settings,
           std::shared_ptr<metrics::Metrics> metrics, Aftermath aftermath,
           std::function<Time()> clock = &Time::clock::now);

  // Runs until the mailbox is closed.
  void run(event::Mailbox<Update>& mailbox);

  // One turn: takes in `update`, if there is one, and runs whatever is due. Returns when to come
  // back at the latest. run() calls it.
  Time turn(std::optional<Update> update);

 private:
  void take(Update update);
  void check_for_flush();
  // Nobody has changed anything.
  void confirm(std::chrono::nanoseconds took);
  void mend();
  void count_connections();
  void sync();
  base::Result<backend::SyncReport> run_once(const backend::SyncRequest& request);
  void succeeded(const backend::SyncReport& report);
  void measure(const backend::SyncReport& report);
  void tell(const backend::SyncReport& report);
  void tell_mended(const backend::SyncReport& report);
  void failed(const base::Error& error);
  klog::Field family_field() const;
  // All that the mode writes are rules of iptables.
  bool writes_rules_only() const;

  std::unique_ptr<backend::Backend> backend_;
  Settings settings_;
  std::shared_ptr<metrics::Metrics> metrics_;
  Aftermath aftermath_;
  std::function<Time()> clock_;
  Schedule schedule_;
  model::SnapshotPtr snapshot_;  // null until the first update
  model::DirtySet dirty_;        // since the last sync that succeeded
  TriggerTimes triggers_;
  bool full_ = true;      // the next sync compares everything
  bool rewrite_ = false;  // ... and trusts nothing that is there
  Mending mending_;
  Time last_full_;
  Time next_check_;       // for flushed rules
  Time next_count_;       // of connections
  Time next_tending_;     // of what the backend has to do between syncs
  int quick_checks_ = 0;  // checks left at the short interval after a flush
  int failures_ = 0;      // in a row
  bool synced_ = false;   // once, at least
};

}  // namespace proxyd
