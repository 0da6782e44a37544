// The health-check node ports of Services with externalTrafficPolicy Local, in one family: load balancers ask
// here which nodes have endpoints. Thousands of them on one loop. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/result.h"
#include "http/server.h"
#include "model/objects.h"
#include "net/ip.h"

namespace serve {

struct HealthPort {
  uint16_t port = 0;
  uint32_t local_endpoints = 0;  // ready ones on this node

  bool operator==(const HealthPort&) const = default;
};
using HealthPorts = std::map<model::ServiceKey, HealthPort>;

class ServiceHealth {
 public:
  struct Options {
    net::Family family = net::Family::V4;
    bool everywhere = true;                // one socket for all addresses of the family
    std::vector<net::IpAddr> addresses{};  // else one for each of these
    std::function<bool()> proxy_healthy;
    // Called for each Service that cannot be listened for, each time it is tried.
    std::function<void(const model::ServiceKey&, uint16_t port, const base::Error&)> tell_failure;
  };
  ServiceHealth(const boost::asio::any_io_executor& executor, Options options);
  ~ServiceHealth();

  // Closes what is no longer wanted, opens what is new, tries again what could not be opened. After every
  // successful sync.
  void update(const HealthPorts& wanted);

  // Ports that are wanted but not open: update() is worth calling again though nothing has changed.
  size_t failed() const { return failed_; }

 private:
  struct Served {
    HealthPort now;
    bool open = false;
    std::vector<http::Server> servers{};
  };
  using Services = std::map<model::ServiceKey, Served>;

  void close_unwanted(const HealthPorts& wanted);
  void open(Services::value_type& service);
  base::Result<> listen(Services::value_type& service) const;
  http::Answer answer(const Services::value_type& service) const;

  boost::asio::any_io_executor executor_;
  Options options_;
  std::shared_ptr<http::Places> places_;  // of all the ports together
  Services services_;
  size_t failed_ = 0;
};

}  // namespace serve
