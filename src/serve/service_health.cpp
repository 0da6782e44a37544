#include "serve/service_health.h"

#include "log/log.h"

namespace serve {
namespace {

// All ports of a family together: what probes that keep their connections need, and what a flood of
// others may cost.
constexpr size_t kConnections = 1024;

constexpr http::ServerLimits kLimits{
    .connections = 64,
    .header_bytes = size_t{16} * 1024,
    .body_bytes = size_t{4} * 1024,
    .request = std::chrono::seconds(5),
    .answer = std::chrono::seconds(5),
    // For healthz, metrics, the API server and the programs that are run at each sync.
    .spare_descriptors = 256,
};

constexpr std::string_view any_address(net::Family family) {
  return family == net::Family::V6 ? "::" : "0.0.0.0";
}

}  // namespace

ServiceHealth::ServiceHealth(const boost::asio::any_io_executor& executor, Options options)
    : executor_(executor),
      options_(std::move(options)),
      places_(http::make_places(executor, kConnections)) {
  if (options_.everywhere)
    options_.addresses = {net::IpAddr::parse(any_address(options_.family)).value()};
}

ServiceHealth::~ServiceHealth() = default;

void ServiceHealth::update(const HealthPorts& wanted) {
  close_unwanted(wanted);  // first: its port may be wanted by another
  failed_ = 0;
  auto have = services_.begin();
  for (const auto& [key, port] : wanted) {
    if (have == services_.end() || have->first != key)
      have = services_.emplace_hint(have, key, Served{});
    have->second.now = port;
    if (!have->second.open) open(*have);
    ++have;
  }
}

void ServiceHealth::close_unwanted(const HealthPorts& wanted) {
  auto want = wanted.begin();
  for (auto have = services_.begin(); have != services_.end();) {
    while (want != wanted.end() && want->first < have->first)
      ++want;
    const auto& [key, served] = *have;
    if (want != wanted.end() && want->first == key && want->second.port == served.now.port) {
      ++have;
      continue;
    }
    klog::verbose(2, "Closing healthcheck", {{"service", key.str()}, {"port", served.now.port}});
    have = services_.erase(have);
  }
}

void ServiceHealth::open(Services::value_type& service) {
  auto& [key, served] = service;
  const auto listening = listen(service);
  served.open = listening.has_value();
  if (served.open) {
    klog::verbose(2, "Opening healthcheck", {{"service", key.str()}, {"port", served.now.port}});
    return;
  }
  served.servers.clear();
  ++failed_;
  options_.tell_failure(key, served.now.port, listening.error());
}

base::Result<> ServiceHealth::listen(Services::value_type& service) const {
  auto& served = service.second;
  const http::ServerOptions options{.limits = kLimits, .places = places_, .one_family = true};
  for (const net::IpAddr& ip : options_.addresses) {
    std::string address;
    net::append_endpoint(address, ip, served.now.port);
    served.servers.push_back(TRY(http::Server::listen(
        executor_, address, [this, &service](const http::Incoming&) { return answer(service); },
        options)));
  }
  return {};
}

http::Answer ServiceHealth::answer(const Services::value_type& service) const {
  const auto& [key, served] = service;
  const bool healthy = options_.proxy_healthy();
  const std::string count = std::to_string(served.now.local_endpoints);
  // Names of Kubernetes objects need no escapes.
  return {.status = served.now.local_endpoints > 0 && healthy ? 200 : 503,
          .headers = {{"Content-Type", "application/json"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"X-Load-Balancing-Endpoint-Weight", count}},
          .body = "{\n\t\"service\": {\n\t\t\"namespace\": \"" + key.ns + "\",\n\t\t\"name\": \"" +
                  key.name + "\"\n\t},\n\t\"localEndpoints\": " + count +
                  ",\n\t\"serviceProxyHealthy\": " + (healthy ? "true" : "false") + "\n}"};
}

}  // namespace serve
