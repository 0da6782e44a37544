// How long to wait before the next attempt. Pure: time and chance are arguments.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace source::api {

class Backoff {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;

  static constexpr Duration kFirst = std::chrono::milliseconds(800);
  static constexpr Duration kMost = std::chrono::seconds(30);
  static constexpr Duration kForget = std::chrono::minutes(2);

  // Twice as long as the time before, up to kMost, plus up to as much again, so that the nodes of a
  // cluster do not come back all at once. `chance` is in [0, 1).
  Duration next(Time now, double chance) {
    if (last_ && now - *last_ > kForget) base_ = kFirst;
    last_ = now;
    const Duration base = base_;
    base_ = std::min(2 * base_, kMost);
    return base + std::chrono::duration_cast<Duration>(base * chance);
  }

 private:
  Duration base_ = kFirst;
  std::optional<Time> last_;
};

}  // namespace source::api
