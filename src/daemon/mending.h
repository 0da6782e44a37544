// When to mend rules that somebody else has changed. Pure: the time is an argument.
//
// At once; but a neighbour who changes them again and again must not keep us busy for ever, so that the pauses double
// while that goes on.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "backend/backend.h"
#include "daemon/schedule.h"

namespace proxyd {

class Mending {
 public:
  using Time = Schedule::Time;
  using Duration = Schedule::Duration;

  static constexpr std::chrono::milliseconds kFirstPause{100};
  // Whoever has left the rules alone for this long, and for two pauses, is forgiven.
  static constexpr std::chrono::seconds kCalm{10};

  explicit Mending(Duration longest_pause) : longest_pause_(longest_pause) {}

  void disturbed(backend::Disturbance disturbance, Time now) {
    if (disturbance == backend::Disturbance::None) return;
    if (owed_ == backend::Disturbance::None) {
      if (now - last_ >= std::max<Duration>(kCalm, 2 * pause_)) in_a_row_ = 0, pause_ = {};
      at_ = std::max(now, last_ + pause_);
    }
    owed_ = std::max(owed_, disturbance);
  }

  // When to mend, if nothing else happens.
  Time next() const { return owed_ == backend::Disturbance::None ? Time::max() : at_; }
  bool due(Time now) const { return now >= next(); }

  // What is to be mended now. The next pause begins.
  backend::Disturbance begin(Time now) {
    last_ = now;
    pause_ = std::min(longest_pause_, ++in_a_row_ == 1 ? Duration(kFirstPause) : 2 * pause_);
    return std::exchange(owed_, backend::Disturbance::None);
  }

  // How often it was mended, while there was no calm in between.
  int in_a_row() const { return in_a_row_; }
  // Until what is disturbed now is mended.
  Duration pause() const { return pause_; }

 private:
  Duration longest_pause_;
  backend::Disturbance owed_ = backend::Disturbance::None;
  Time at_{};         // when it will be mended
  Time last_{};       // when it was last mended
  Duration pause_{};  // from then on
  int in_a_row_ = 0;
};

}  // namespace proxyd
