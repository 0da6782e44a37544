// A token bucket: `burst` requests at once, then `qps` a second. Pure: the time is an argument.
#pragma once

#include <algorithm>
#include <chrono>

namespace kube {

class RateLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // qps below 0: no limit.
  RateLimit(double qps, int burst, Time now)
      : qps_(qps), burst_(burst), tokens_(burst), filled_(now) {}

  // Takes a token, perhaps one that is yet to come: how long to wait for it.
  std::chrono::nanoseconds reserve(Time now) {
    if (qps_ < 0) return {};
    const std::chrono::duration<double> passed = std::max(now, filled_) - filled_;
    tokens_ = std::min<double>(burst_, tokens_ + passed.count() * qps_);
    filled_ = std::max(now, filled_);
    tokens_ -= 1;
    if (tokens_ >= 0) return {};
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(-tokens_ / qps_));
  }

 private:
  double qps_;
  int burst_;
  double tokens_;  // below 0: promised already
  Time filled_;
};

}  // namespace kube
