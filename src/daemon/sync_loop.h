// The sync thread: takes what the loop thread has put into the mailbox and brings the kernel in
// line, family by family.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "daemon/schedule.h"
#include "event/mailbox.h"
#include "model/store.h"

namespace proxyd {

// What the loop thread says: the newest snapshot, and what differs from the one before.
struct Update {
  model::SnapshotPtr snapshot;
  model::DirtySet dirty;

  void merge(Update later) {
    snapshot = std::move(later.snapshot);
    dirty.merge(std::move(later.dirty));
  }
};

class SyncLoop {
 public:
  using Time = Schedule::Time;

  // A run at least this often, and a full one if the backend wants it.
  static constexpr std::chrono::hours kMaxInterval{1};

  struct Periods {
    Schedule::Duration min_sync;
    Schedule::Duration sync;  // retry after a failure, and how often to look for flushed rules
  };

  SyncLoop(std::vector<std::unique_ptr<backend::Backend>> backends, Periods periods,
           event::Mailbox<Update>& mailbox);

  // Runs until the mailbox is closed.
  void run();

  // One turn at `now`: takes in `update`, if there is one, and runs whatever is due. Returns when
  // to come back at the latest. For tests; run() calls it.
  Time turn(Time now, std::optional<Update> update);

 private:
  struct Family {
    std::unique_ptr<backend::Backend> backend;
    Schedule schedule;
    model::DirtySet dirty;
    bool full = true;
    Time last_full;
    Time next_check;       // for flushed rules
    int quick_checks = 0;  // checks left at the short interval after a flush
    int failures = 0;      // in a row
    bool synced = false;   // once, at least
  };

  void take_in(Update update);
  void check_for_flush(Family& family, Time now);
  void sync(Family& family);
  void succeeded(Family& family, const backend::SyncReport& report);
  void failed(Family& family, const base::Error& error);

  std::vector<Family> families_;
  Periods periods_;
  event::Mailbox<Update>& mailbox_;
  model::SnapshotPtr snapshot_;
};

}  // namespace proxyd
