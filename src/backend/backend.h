// What the daemon asks of a proxy mode, once for each IP family. Lives on the sync thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/store.h"
#include "net/ip.h"

namespace backend {

struct SyncRequest {
  model::SnapshotPtr snapshot;
  model::DirtySet dirty;  // since the last sync that was asked for
  bool full = false;      // compare everything with the kernel, not just what is dirty
  bool rewrite = false;   // ... and trust nothing that is there: somebody else has changed it
};

// Of one table that rules are kept in.
struct TableRules {
  std::string_view table;
  size_t total = 0;    // of ours, after the sync
  size_t written = 0;  // by it
};

// What a Service asks for and does not get, for its owner to know.
struct Problem {
  model::ServiceKey service;
  std::string text;

  auto operator<=>(const Problem&) const = default;
};

struct SyncReport {
  bool full = false;
  size_t chains = 0;                   // written or deleted
  size_t rules = 0;                    // written
  size_t elements = 0;                 // of sets, written or deleted; modes nftables and ipvs
  size_t servers = 0;                  // virtual and real ones, written or deleted; mode ipvs only
  size_t addresses = 0;                // bound or released; mode ipvs only
  size_t messages = 0;                 // sent over netlink; mode ipvs only
  size_t bytes = 0;                    // sent to the kernel or its tool
  size_t endpoints = 0;                // of all Services of this family
  size_t drift = 0;                    // found changed by somebody else since the last sync
  bool unfinished = false;             // something is short, and worth another try after syncPeriod
  size_t cleanup_failures = 0;         // chains that could not be deleted yet; mode nftables only
  std::vector<TableRules> tables;      // mode iptables only
  std::chrono::nanoseconds observe{};  // reading the kernel
  std::chrono::nanoseconds plan{};     // deciding what is to be
  std::chrono::nanoseconds render{};   // putting it into words, and comparing
  std::chrono::nanoseconds commit{};   // writing to the kernel
  std::vector<std::string> warnings;   // degraded but working
  std::vector<Problem> problems;       // of all Services that were looked at
};

// Connections to one Service port, ever since we began to count.
struct PortConnections {
  model::ServiceKey service;
  std::string port;  // its name, or its number if it has none
  net::Protocol protocol = net::Protocol::Tcp;
  uint64_t total = 0;
};

// Has somebody else changed our rules?
enum class Disturbance : uint8_t { None, Maybe, Sure };

// Listens to what others do to the kernel's rules. Lives on the loop thread.
class Watch {
 public:
  virtual ~Watch() = default;

  // Readable when there is news.
  virtual int fd() const = 0;
  // Reads all news there is. Never blocks.
  virtual Disturbance drain() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual net::Family family() const = 0;

  // Brings the kernel in line with the snapshot. Each table changes as a whole or not at all; after
  // an error the next sync compares everything.
  virtual base::Result<SyncReport> sync(const SyncRequest& request) = 0;

  // Did somebody else remove our rules? False also if that cannot be told now. A thorough look may
  // cost a second in a large cluster.
  virtual bool flushed(bool thorough) = 0;

  // Reads the kernel's counters. May cost a second in a large cluster.
  virtual base::Result<std::vector<PortConnections>> count_connections(
      const model::Snapshot& snapshot) = 0;

  // Null: this mode cannot listen, and relies on flushed().
  virtual base::Result<std::unique_ptr<Watch>> watch() { return nullptr; }

  // Does what has to be done between syncs, and says when to come back at the latest.
  using Time = std::chrono::steady_clock::time_point;
  virtual Time tend(Time /*now*/) { return Time::max(); }
};

}  // namespace backend
