// The API server as the source of objects: a client, and a reflector for each resource.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/result.h"
#include "config/options.h"
#include "daemon/api_observer.h"
#include "daemon/intake.h"
#include "daemon/loop.h"
#include "daemon/source.h"
#include "kube/client.h"
#include "kube/events.h"
#include "metrics/metrics.h"
#include "source/api/reflector.h"

namespace proxyd {

class ApiSource final : public Source {
 public:
  // Reads the kubeconfig and what it names; talks to nobody yet.
  static base::Result<std::unique_ptr<Source>> open(const config::Options& options,
                                                    const std::string& node_name, Loop& loop,
                                                    Intake& intake, metrics::Metrics& metrics);

  // What ApiSource is made of; all but the client and its observer outlive it.
  struct Parts {
    const config::Options& options;
    const std::string& node_name;
    Loop& loop;
    Intake& intake;
    metrics::ApiMetrics& metrics;
    std::unique_ptr<ApiObserver> observer;
    std::unique_ptr<kube::Client> client;
  };
  explicit ApiSource(Parts parts);

  // Waits for the API server without limit, then for the Node and its addresses for 30 s, and in mode
  // NodeCIDR for its podCIDRs for 5 minutes more.
  base::Result<> find_node() override;
  void start() override;
  void record(kube::Event event) override;
  void flush_events() override;

 private:
  void watch(source::api::Resource resource);
  void synced(source::api::Resource resource);
  bool is_synced(source::api::Resource resource) const;
  base::Result<> wait_for_addresses();
  base::Result<> wait_for_pod_cidrs();

  const config::Config& config_;
  std::string node_name_;
  Loop& loop_;
  Intake& intake_;
  metrics::ApiMetrics& metrics_;
  std::unique_ptr<ApiObserver> observer_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<kube::Recorder> recorder_;
  std::array<std::unique_ptr<source::api::Reflector>, source::api::kResources> reflectors_;
  std::array<bool, source::api::kResources> synced_{};
  Loop::Clock::time_point started_;
};

}  // namespace proxyd
