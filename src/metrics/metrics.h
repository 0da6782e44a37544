// What kube-proxy measures about itself, and how it is shown.
//
// The daemon says what has happened; which metrics that changes is decided here, as kube-proxy
// v1.36.4 does. Everything may be called from any thread: sync threads observe, the loop thread
// shows (prometheus-cpp's families and values are safe for that).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "net/ip.h"

namespace metrics {

struct SyncRun {
  net::Family family = net::Family::V4;
  bool full = false;
  bool ok = false;
  std::chrono::nanoseconds duration{};
};

struct RuleCount {
  size_t total = 0;    // of ours in that table
  size_t written = 0;  // by the last sync
};

class Metrics {
 public:
  using Time = std::chrono::system_clock::time_point;

  // `mode` ("iptables", "nftables", "ipvs") decides which metrics there are.
  explicit Metrics(std::string_view mode,
                   std::function<Time()> clock = &std::chrono::system_clock::now);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // An event of a Service, which every family that is served counts.
  void service_changed(size_t families);
  // An event of an EndpointSlice of a family that is served.
  void endpoints_changed();

  // There is something to do for this family. Also at the start of its thread.
  void sync_queued(net::Family family);
  // A sync takes in what has changed so far.
  void sync_started(net::Family family);
  // Each run, also the one that failed before the one that worked.
  void sync_finished(const SyncRun& run);
  // `table` is "filter" or "nat".
  void iptables_rules(net::Family family, std::string_view table, const RuleCount& count);

  // kubernetes_build_info: git_version and the like.
  void build_info(const std::map<std::string, std::string>& labels);
  // `stage` is "ALPHA", "BETA", "DEPRECATED" or, for what is generally available, empty.
  void feature_enabled(std::string_view gate, std::string_view stage, bool enabled);

  // When this object was made; close enough to the start of the process.
  Time started() const { return started_; }

  // Everything in Prometheus' text format, together with what the process costs.
  std::string text() const;

 private:
  struct Rows;

  std::function<Time()> clock_;
  Time started_;
  std::unique_ptr<Rows> rows_;
};

}  // namespace metrics
