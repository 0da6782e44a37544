// A letter box between two threads in which letters merge: a slow reader finds one combined
// letter, never a queue.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace event {

// T has merge(T later): the combination of both, in that order.
template <typename T>
class Mailbox {
 public:
  using Clock = std::chrono::steady_clock;

  void put(T letter) {
    {
      const std::lock_guard lock(mutex_);
      if (letter_) {
        letter_->merge(std::move(letter));
      } else {
        letter_ = std::move(letter);
      }
    }
    arrived_.notify_one();
  }

  // Ends all waiting, now and later.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    arrived_.notify_all();
  }

  // Waits for a letter until `deadline`; empty-handed when it passes or the box is closed.
  std::optional<T> take_until(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    arrived_.wait_until(lock, deadline, [&] { return letter_.has_value() || closed_; });
    return std::exchange(letter_, std::nullopt);
  }

  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<T> letter_;
  bool closed_ = false;
};

}  // namespace event
