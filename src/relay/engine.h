// The part of mode userspace that moves bytes: worker threads that accept connections and datagrams on fronts, connect
// to endpoints, and let the kernel carry everything from one socket to the other.
//
// Used from the sync threads of both families.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "relay/budget.h"
#include "relay/front.h"
#include "relay/target.h"

namespace relay {

class Worker;

class Engine {
 public:
  struct Settings {
    unsigned workers = 1;  // threads
    std::chrono::nanoseconds udp_idle = std::chrono::milliseconds(250);
    size_t descriptors = 1024;  // that connections, pipes and fronts may use
  };
  static base::Result<std::shared_ptr<Engine>> start(const Settings& settings);
  ~Engine();

  // Serves what arrives at the front from now on. For TCP, its socket listens or will listen later.
  base::Result<> open(const FrontPtr& front);
  // Serves nothing new. Returns when no worker uses the sockets any more: dropping the fronts closes them. TCP
  // connections go on, clients of UDP are forgotten.
  void close(const std::vector<FrontPtr>& fronts);

  // The caller has so many descriptors open besides fronts: connections have to do with fewer.
  void hold_descriptors(size_t count) { sockets_.hold(count); }
  void give_descriptors(size_t count) { sockets_.give(count); }

  // Some targets have left with a deadline (Target::leave): their connections are reset then.
  void expect_deadline(Time deadline);

  struct Totals {
    uint64_t connections = 0;     // right now, TCP
    uint64_t clients = 0;         // right now, UDP
    uint64_t waiting_fronts = 0;  // with connections that wait for descriptors
  };
  Totals totals() const;

 private:
  explicit Engine(const Settings& settings);
  // With far fewer connections; null if there is none.
  Worker* idler_than(const Worker& busy);

  Budget sockets_;
  Budget pipes_;
  Budget clients_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<size_t> turn_ = 0;
};

}  // namespace relay
