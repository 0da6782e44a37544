// What kube-proxy measures about itself, and how it is shown.
//
// The daemon says what has happened; which metrics that changes is decided here, as kube-proxy
// v1.36.4 does. Everything may be called from any thread: sync threads observe, the loop thread
// shows (prometheus-cpp's families and values are safe for that).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/api_metrics.h"
#include "metrics/exposition.h"
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

// Connections to one port of a Service, ever since we began to count.
struct ServiceConnections {
  std::string ns;
  std::string service;
  std::string port;      // its name, or its number if it has none
  std::string protocol;  // "TCP"
  uint64_t total = 0;
};

class Metrics {
 public:
  using Time = std::chrono::system_clock::time_point;

  // `mode` ("iptables", "nftables", "ipvs") decides which metrics there are; "userspace" has those of iptables.
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

  // A change of endpoints is in the kernel, so long after it happened.
  void network_programmed(net::Family family, std::chrono::nanoseconds since);
  // Service ports (Services in mode ipvs) that have a Local traffic policy and no endpoint here.
  void no_local_endpoints(net::Family family, size_t internal, size_t external);
  // That many chains could not be deleted.
  void nftables_cleanup_failed(net::Family family, size_t count);
  void conntrack_reconciled(net::Family family, std::chrono::nanoseconds duration, size_t deleted);

  // The health server has answered with that status.
  void healthz_answered(int status);
  void livez_answered(int status);

  // Packets that the kernel has counted, read with every scrape, by the thread that shows. Nothing:
  // there is no such counter now. REQUIRES: told before anything is shown, if at all.
  using ReadCounter = std::function<std::optional<uint64_t>()>;
  void count_packets(ReadCounter invalid_dropped, ReadCounter localhost_accepted);

  // Ours. How long one part of a sync took; `stage` is one of few words ("plan", "commit").
  void sync_stage(net::Family family, std::string_view stage, std::chrono::nanoseconds duration);
  // Ours. Services that the next sync has to look at.
  void dirty_services(net::Family family, size_t count);
  // Ours. Chains (or sets, or virtual servers) that the kernel no longer had as we had written them.
  void kernel_drifted(net::Family family, size_t count);
  // Ours, and as many samples as there are Services, so only if asked for. Replaces what was told
  // before for that family.
  void service_connections(net::Family family, std::vector<ServiceConnections> all);

  // Ours and theirs, about the API server.
  ApiMetrics& api() { return api_; }

  // kubernetes_build_info: git_version and the like.
  void build_info(const std::map<std::string, std::string>& labels);
  // `stage` is "ALPHA", "BETA", "DEPRECATED" or, for what is generally available, empty.
  void feature_enabled(std::string_view gate, std::string_view stage, bool enabled);

  // When this object was made; close enough to the start of the process.
  Time started() const { return started_; }

  // Everything, together with what the process costs.
  std::string show(Format format) const;
  std::string text() const { return show(Format::Text); }

 private:
  struct Rows;

  std::function<Time()> clock_;
  Time started_;
  std::unique_ptr<Rows> rows_;
  ApiMetrics api_;
};

}  // namespace metrics
