// Waits until endpoints have been gone for the drain time, then has the TCP connections to them reset.
//
// An endpoint is gone when no slice of any proxied Service lists it, ready or not. One that comes back in time is left
// alone. What is gone is not remembered across restarts; so once after the start, connections made through a Service to
// something that is no endpoint are treated as if it had just gone.
//
// Lives on the sync thread of its family. The time is an argument.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "daemon/schedule.h"
#include "model/store.h"
#include "net/flow.h"
#include "plan/gone.h"

namespace proxyd {

class ResetWatch {
 public:
  using Time = Schedule::Time;
  using Doomed = std::function<bool(const net::Flow&)>;

  // What is done to the kernel: see kernel/tcp_reset.h.
  struct Kernel {
    std::function<base::Result<std::vector<net::Flow>>(const Doomed&, size_t limit)> reset;
    std::function<base::Result<>()> clear;
    std::chrono::seconds linger;  // from the last reset to clear()
    // Of this node, where node ports answer.
    std::function<std::vector<net::IpAddr>()> node_port_addresses;
  };

  // A round resets no more than this, then waits: thousands of clients that connect anew are a storm.
  static constexpr size_t kMaxFlows = 4096;
  static constexpr std::chrono::seconds kPause{1};
  // After an error.
  static constexpr std::chrono::seconds kRetry{30};
  // While there are errors, an endpoint is remembered for this long.
  static constexpr std::chrono::hours kPatience{1};

  ResetWatch(net::Family family, Schedule::Duration drain, Kernel kernel);

  // The kernel now has the rules of this snapshot. `dirty` is what differs from the snapshot of the last call; the first
  // one is compared with nothing.
  void synced(model::SnapshotPtr snapshot, const model::DirtySet& dirty, Time now);

  // When run() has something to do; nothing: not before synced() finds something.
  std::optional<Time> next() const;

  // Does whatever is due, and logs it.
  void run(Time now);

 private:
  struct Gone {
    Time since;
    std::shared_ptr<const plan::FrontEnds> by;  // of the Services that had it, as they were
  };
  using GoneMap = std::unordered_map<plan::TcpEnd, Gone, plan::TcpEndHash>;

  void note_gone(const std::vector<plan::EntryChange>& changes, Time now);
  bool due(const Gone& gone, Time now) const { return gone.since + drain_ <= now; }
  bool strangers_due(Time now) const { return started_ && *started_ + drain_ <= now; }
  void reset(Time now);
  bool doomed(const net::Flow& flow, const plan::FrontEnds& current, Time now) const;
  void finish_round(const std::vector<net::Flow>& flows, Time now);
  void forget_due(Time now);
  void forget_old(Time now);
  void clear();

  net::Family family_;
  Schedule::Duration drain_;
  Kernel kernel_;
  model::SnapshotPtr snapshot_;  // null until the first sync
  plan::EndpointUses uses_;
  std::vector<net::IpAddr> here_;  // where node ports answer, as of this round
  GoneMap gone_;
  std::optional<Time> started_;    // connections to strangers have not been looked for yet
  Time not_before_ = Time::min();  // the next round: after a pause, or an error
  std::optional<Time> clear_at_;   // our rules are in the kernel
};

}  // namespace proxyd
