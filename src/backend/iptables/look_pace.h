// When to look through all rules for what others have changed: that costs a second in a large cluster.
#pragma once

#include <chrono>

namespace iptables {

class LookPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Is it time to look? One who wants it to be thorough need not wait.
  bool is_due(Time now, bool thorough) const {
    return now >= not_before_ && (thorough || now >= next_);
  }

  // What came of looking at `now`.
  void looked(Time now, std::chrono::nanoseconds took, bool found) {
    next_ = now + kShare * took;
    found_in_a_row_ = found ? found_in_a_row_ + 1 : 0;
    // Somebody changes them as fast as we mend, or this iptables prints rules in another form than we do.
    if (found_in_a_row_ > 1) not_before_ = now + found_in_a_row_ * kPause;
  }

 private:
  // After looking for one second, this many are not spent on that.
  static constexpr int kShare = 300;
  // ... and longer each time that what was mended is found changed again.
  static constexpr std::chrono::minutes kPause{1};

  Time next_{};
  Time not_before_{};
  int found_in_a_row_ = 0;
};

}  // namespace iptables
