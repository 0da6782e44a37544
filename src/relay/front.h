// A socket that clients of a Service port are led to, and what becomes of those who come.
//
// The sync thread makes fronts and says what they offer; the workers of the engine serve them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/fd.h"
#include "net/ip.h"
#include "relay/balancer.h"

namespace relay {

struct Offer {
  std::shared_ptr<Balancer> balancer;  // null: nothing for anybody
  std::shared_ptr<Balancer>
      for_local;                // for clients on this node, if they get something else; may be null
  bool proxy_protocol = false;  // TCP only: the endpoint is told who the client is
};

class Front {
 public:
  struct Settings {
    std::string name;  // "namespace/name:port", for messages
    net::Family family = net::Family::V4;
    net::Protocol protocol = net::Protocol::Tcp;
    base::Fd socket;  // bound, not blocking
    // Is the client a pod of this node, or the node itself? Asked only if it matters; from any thread.
    std::function<bool(const net::IpAddr&)> is_local = [](const net::IpAddr&) { return false; };
  };
  explicit Front(Settings settings) : settings_(std::move(settings)) {}

  const Settings& settings() const { return settings_; }
  int socket() const { return settings_.socket.get(); }

  void offer(Offer offer);
  // Another number whenever the offer may have changed.
  uint64_t offers_made() const { return offers_made_.load(std::memory_order_acquire); }
  // The list for this client; may be null.
  struct Choice {
    std::shared_ptr<Balancer> balancer;
    bool proxy_protocol = false;
  };
  Choice choose(const net::IpAddr& client) const;

  // Since it was made.
  struct Counters {
    std::atomic<uint64_t> accepted = 0;  // connections, or for UDP clients
    std::atomic<uint64_t> failed = 0;    // ... of those without an endpoint in the end
    std::atomic<uint64_t> retried = 0;   // attempts after the first
  };
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

 private:
  Settings settings_;
  mutable std::mutex mutex_;
  Offer offer_;
  std::atomic<uint64_t> offers_made_ = 0;
  Counters counters_;
};

using FrontPtr = std::shared_ptr<Front>;

}  // namespace relay
