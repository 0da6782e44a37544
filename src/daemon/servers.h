// The daemon's HTTP servers: metrics, healthz, and the health-check node ports of Services. Loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "base/result.h"
#include "config/options.h"
#include "daemon/loop.h"
#include "daemon/node_facts.h"
#include "daemon/source.h"
#include "metrics/metrics.h"
#include "serve/health.h"
#include "serve/patient_server.h"
#include "serve/service_health.h"

namespace proxyd {

class Servers {
 public:
  // All of them outlive the servers.
  struct Parts {
    const config::Options& options;
    const std::string& node_name;
    Loop& loop;
    Source& source;
    std::shared_ptr<metrics::Metrics> metrics;
    std::shared_ptr<serve::Health> health;
  };

  // Listens for metrics and healthz. An error only with bindAddressHardFail.
  static base::Result<std::unique_ptr<Servers>> start(Parts parts);

  using Publish = std::function<void(std::shared_ptr<const serve::HealthPorts>)>;
  // Where a sync thread tells which health-check node ports it has; any thread may call it.
  Publish serve_health_ports(const NodeFacts& node, net::Family family);

 private:
  explicit Servers(Parts parts) : parts_(std::move(parts)) {}

  base::Result<> start_metrics();
  base::Result<> start_healthz();
  std::unexpected<base::Error> give_up(const std::string& reason, const base::Error& error);
  void tell_failure(const model::ServiceKey& service, uint16_t port, const base::Error& error);

  // The health-check node ports of one family.
  struct HealthListeners {
    HealthListeners(Loop& loop, serve::ServiceHealth::Options options)
        : served(loop.io().get_executor(), std::move(options)), again(loop.io()) {}

    serve::ServiceHealth served;
    std::shared_ptr<const serve::HealthPorts> wanted;
    boost::asio::steady_timer again;  // while some could not be opened
  };
  static void update(HealthListeners& listeners);

  Parts parts_;
  std::unique_ptr<serve::PatientServer> metrics_server_;
  std::unique_ptr<serve::PatientServer> healthz_server_;
  std::map<net::Family, HealthListeners> service_health_;
};

// About this node.
kube::Event node_event(kube::Event::Type type, const std::string& reason, const std::string& node,
                       const std::string& note);

}  // namespace proxyd
