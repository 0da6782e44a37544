// One thread of the engine: waits for sockets to be ready, and does what they are ready for.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "relay/budget.h"
#include "relay/front.h"
#include "relay/poller.h"
#include "relay/tcp.h"
#include "relay/udp.h"

namespace relay {

class Worker {
 public:
  struct Settings {
    unsigned number = 0;
    std::chrono::nanoseconds udp_idle{};
    Budget& sockets;
    Budget& pipes;
    Budget& clients;  // of UDP
    // A worker that has far less to do than this one; null if there is none.
    std::function<Worker*(const Worker&)> idler;
  };
  static base::Result<std::unique_ptr<Worker>> make(Settings settings);
  ~Worker();

  // After the last worker is made: they know each other.
  void start();
  // Waits for the end of the thread. Its connections end with it.
  void stop();

  // What the thread is to do with its relays; from any thread.
  using Order = std::move_only_function<void(TcpRelay&, UdpRelay&)>;
  void post(Order order);

  // How much it has to do; from any thread.
  size_t connections() const { return connections_.load(std::memory_order_relaxed); }
  size_t clients() const { return clients_.load(std::memory_order_relaxed); }
  size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  // Wakes the thread.
  struct Bell final : Handler {
    void ready(uint32_t events) override;
    base::Fd fd;
    bool rung = false;
  };

  Worker(Settings settings, Poller poller, base::Fd bell);
  void run();
  void obey();
  bool pass_on(Accepted& accepted);
  // For a client of UDP.
  bool take_descriptor();
  void give_descriptor();

  Settings settings_;
  Poller poller_;
  Bell bell_;
  TcpRelay tcp_;
  UdpRelay udp_;
  std::mutex mutex_;
  std::vector<Order> orders_;
  bool stopping_ = false;
  std::atomic<size_t> connections_ = 0;
  std::atomic<size_t> clients_ = 0;
  std::atomic<size_t> waiting_ = 0;
  std::thread thread_;
};

}  // namespace relay
