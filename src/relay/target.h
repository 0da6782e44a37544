// An endpoint that connections are made to: shared by the lists that offer it and by every connection to it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "net/ip.h"

namespace relay {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

class Target {
 public:
  Target(const net::IpAddr& ip, uint16_t port) : ip_(ip), port_(port) {}

  const net::IpAddr& ip() const { return ip_; }
  uint16_t port() const { return port_; }

  // Its Service has it no more: datagrams go elsewhere at once, connections end at `deadline`. Time::max(): never.
  void leave(Time deadline) {
    deadline_.store(deadline.time_since_epoch().count(), std::memory_order_relaxed);
    gone_.store(true, std::memory_order_release);
  }
  // Not ready and not even serving any more: clients of UDP, which have nothing that could end, go elsewhere.
  void set_serving(bool serving) { serving_.store(serving, std::memory_order_release); }
  bool serving() const { return serving_.load(std::memory_order_acquire); }
  // It is back before its connections have ended.
  void come_back() { gone_.store(false, std::memory_order_release); }
  bool gone() const { return gone_.load(std::memory_order_acquire); }
  // REQUIRES: gone().
  Time deadline() const { return Time(Clock::duration(deadline_.load(std::memory_order_relaxed))); }

 private:
  net::IpAddr ip_;
  uint16_t port_;
  std::atomic<bool> gone_ = false;
  std::atomic<bool> serving_ = true;
  std::atomic<Clock::rep> deadline_ = 0;
};

using TargetPtr = std::shared_ptr<Target>;

}  // namespace relay
