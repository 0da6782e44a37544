#include "daemon/servers.h"

#include <utility>

#include <boost/asio/post.hpp>

#include "kernel/netfilter.h"
#include "log/log.h"
#include "serve/healthz_server.h"
#include "serve/metrics_pages.h"
#include "serve/metrics_server.h"

namespace proxyd {
namespace {

using base::Result;

constexpr std::chrono::seconds kTryPortsAgain{30};

// Where health-check node ports listen.
serve::ServiceHealth::Options where_to_listen(const config::Config& config, const NodeFacts& node,
                                              net::Family family) {
  serve::ServiceHealth::Options options;
  options.family = family;
  const NodePortRange range = node_port_range(config, node, family);
  options.everywhere = range.everywhere;
  if (range.everywhere) return options;
  const auto addresses = kernel::interface_addresses();
  if (!addresses) {
    klog::error("No addresses of this node, health-check node ports listen on all of them",
                addresses.error().text);
    options.everywhere = true;
    return options;
  }
  options.addresses = within(range, *addresses);
  return options;
}

// Of a counter of the kernel, if it is there.
std::optional<uint64_t> packets(const std::string& counter) {
  const auto count = kernel::read_counter(counter);
  return count ? std::optional(*count) : std::nullopt;
}

}  // namespace

kube::Event node_event(kube::Event::Type type, const std::string& reason, const std::string& node,
                       const std::string& note) {
  return {.regarding = {.kind = "Node", .name = node},
          .type = type,
          .reason = reason,
          .action = "StartKubeProxy",
          .note = note};
}

Result<std::unique_ptr<Servers>> Servers::start(Parts parts) {
  std::unique_ptr<Servers> servers(new Servers(std::move(parts)));
  TRY(servers->start_healthz());
  TRY(servers->start_metrics());
  return servers;
}

Result<> Servers::start_metrics() {
  serve::describe_process(*parts_.metrics, parts_.options);
  if (parts_.options.config.mode == "iptables" && kernel::probe_counters()) {
    parts_.metrics->count_packets([] { return packets("ct_state_invalid_dropped_pkts"); },
                                  [] { return packets("localhost_nps_accepted_pkts"); });
  }
  auto server = serve::start_metrics_server(parts_.loop.io().get_executor(),
                                            {.metrics = *parts_.metrics,
                                             .config = parts_.options.config,
                                             .flags = parts_.options.flags,
                                             .version = parts_.options.version});
  if (!server) return give_up("FailedToStartMetricServer", server.error());
  metrics_server_ = std::move(*server);
  return {};
}

Result<> Servers::start_healthz() {
  const auto metrics = parts_.metrics;
  auto server = serve::start_healthz_server(
      parts_.loop.io().get_executor(),
      {.health = *parts_.health,
       .healthz_answered = [metrics](int status) { metrics->healthz_answered(status); },
       .livez_answered = [metrics](int status) { metrics->livez_answered(status); }},
      parts_.options.config);
  if (!server) return give_up("FailedToStartProxierHealthcheck", server.error());
  healthz_server_ = std::move(*server);
  return {};
}

// Tells the cluster before the process ends.
std::unexpected<base::Error> Servers::give_up(const std::string& reason, const base::Error& error) {
  parts_.source.record(
      node_event(kube::Event::Type::Warning, reason, parts_.node_name, error.text));
  parts_.source.flush_events();
  return std::unexpected(error);
}

Servers::Publish Servers::serve_health_ports(const NodeFacts& node, net::Family family) {
  auto options = where_to_listen(parts_.options.config, node, family);
  options.proxy_healthy = [health = parts_.health] { return health->healthy(); };
  options.tell_failure = [this](const model::ServiceKey& service, uint16_t port,
                                const base::Error& error) { tell_failure(service, port, error); };
  auto& listeners =
      service_health_.try_emplace(family, parts_.loop, std::move(options)).first->second;
  return [&listeners, &io = parts_.loop.io()](std::shared_ptr<const serve::HealthPorts> ports) {
    boost::asio::post(io, [&listeners, ports = std::move(ports)]() mutable {
      const bool changed = listeners.wanted != ports;
      listeners.wanted = std::move(ports);
      if (changed || listeners.served.failed() > 0) update(listeners);
    });
  };
}

// In a quiet cluster the next sync may be an hour away; a port that is taken may be free sooner.
void Servers::update(HealthListeners& listeners) {
  listeners.served.update(*listeners.wanted);
  listeners.again.cancel();
  if (listeners.served.failed() == 0) return;
  listeners.again.expires_after(kTryPortsAgain);
  listeners.again.async_wait([&listeners](const boost::system::error_code& error) {
    if (!error) update(listeners);
  });
}

void Servers::tell_failure(const model::ServiceKey& service, uint16_t port,
                           const base::Error& error) {
  klog::error("Failed to start healthcheck", error.text,
              {{"node", parts_.node_name}, {"service", service.str()}, {"port", port}});
  parts_.source.record({.regarding = {.kind = "Service", .ns = service.ns, .name = service.name},
                        .type = kube::Event::Type::Warning,
                        .reason = "FailedToStartServiceHealthcheck",
                        .action = "Listen",
                        .note = "node " + parts_.node_name + " failed to start healthcheck \"" +
                                service.str() + "\" on port " + std::to_string(port) + ": " +
                                error.text});
}

}  // namespace proxyd
