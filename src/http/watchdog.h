// Does something once time is up, unless it is called off: a deadline for what has none of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

namespace http {

// Lives on the loop thread. May be destroyed while it is armed: then nothing happens any more.
class Watchdog {
 public:
  Watchdog(const boost::asio::any_io_executor& executor, std::function<void()> bark)
      : timer_(executor), state_(std::make_shared<State>()) {
    state_->bark = std::move(bark);
  }
  ~Watchdog() { state_->bark = nullptr; }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From now on; an earlier deadline is forgotten.
  void arm(std::chrono::nanoseconds time) {
    const auto round = ++state_->round;
    state_->barked = false;
    timer_.expires_after(time);
    timer_.async_wait([state = state_, round](const auto& error) {
      if (error || round != state->round || !state->bark) return;
      state->barked = true;
      state->bark();
    });
  }
  void disarm() {
    ++state_->round;
    timer_.cancel();
  }

  // Whether time was up since it was armed last.
  bool barked() const { return state_->barked; }

 private:
  struct State {
    std::function<void()> bark;
    uint64_t round = 0;
    bool barked = false;
  };
  boost::asio::steady_timer timer_;
  std::shared_ptr<State> state_;
};

}  // namespace http
