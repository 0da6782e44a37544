// A network of its own with an engine in it, and Services whose endpoints are sockets of the test.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/userspace/settings.h"
#include "backend/userspace/test_client.h"
#include "backend/userspace/test_plans.h"
#include "model/store.h"
#include "relay/engine.h"
#include "support/own_network.h"

namespace userspace {

inline model::SnapshotPtr snapshot_of(const std::vector<model::ServiceEntry>& entries) {
  auto snapshot = std::make_shared<model::Snapshot>();
  for (const auto& entry : entries)
    snapshot->services.put(std::make_shared<model::ServiceEntry>(entry));
  return snapshot;
}

class WorldTest : public build::OwnNetwork {
 protected:
  void SetUp() override {
    OwnNetwork::SetUp();
    if (IsSkipped()) return;
    auto started = relay::Engine::start({.workers = 1});
    ASSERT_TRUE(started) << started.error().text;
    engine = std::move(*started);
  }
  void TearDown() override {
    engine.reset();
    OwnNetwork::TearDown();
  }

  Settings settings() const {
    return {.context = context(),
            .listen = {},
            .host = build::ip("127.0.0.1"),
            .ports = {40000, 40009},
            .local_traffic = {}};
  }

  // An endpoint.
  static base::Fd listen_at(const char* address) {
    const Place place{net::Protocol::Tcp, build::ip(address), 8080};
    auto socket = bind_front(place);
    if (!socket) throw std::runtime_error(socket.error().text);  // ends the test
    EXPECT_TRUE(serve(socket->get(), place));
    return std::move(*socket);
  }
  // Does somebody connect to it?
  static bool has_caller(const base::Fd& endpoint) {
    pollfd waiting{.fd = endpoint.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kPatienceMs) != 1) return false;
    const base::Fd accepted(::accept(endpoint.get(), nullptr, nullptr));
    return static_cast<bool>(accepted);
  }
  // Is a connection to this port led to the endpoint?
  static bool leads_to(uint16_t port, const base::Fd& endpoint, const char* at = "127.0.0.1") {
    const base::Fd client = connect_to({net::Protocol::Tcp, build::ip(at), port});
    return errno == 0 && has_caller(endpoint);
  }
  static bool refuses(uint16_t port, net::Protocol protocol = net::Protocol::Tcp) {
    return is_refused({protocol, build::ip("127.0.0.1"), port});
  }

  static constexpr int kPatienceMs = 10'000;
  std::shared_ptr<relay::Engine> engine;
};

}  // namespace userspace
