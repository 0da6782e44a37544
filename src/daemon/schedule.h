// When the next sync of one family is due. Pure: the time is an argument.
#pragma once

#include <chrono>
#include <optional>

namespace proxyd {

class Schedule {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;

  struct Periods {
    Duration min_interval;    // from the end of a run to the start of the next
    Duration retry_interval;  // after a failed run
    Duration max_interval;    // a run at least this often
  };

  Schedule(Periods periods, Time now) : periods_(periods), last_end_(now) {}

  // Asks for a run. Requests before it starts are one request.
  void request() { requested_ = true; }

  bool due(Time now) const { return now >= next(); }

  // When a run is due, if nothing else happens.
  Time next() const {
    if (!ran_) return requested_ ? Time::min() : Time::max();
    if (requested_) return last_end_ + periods_.min_interval;
    const Duration wait =
        failed_ ? std::min(periods_.retry_interval, periods_.max_interval) : periods_.max_interval;
    return last_end_ + std::max(wait, periods_.min_interval);
  }

  void started() { requested_ = false; }
  void finished(Time now, bool succeeded) {
    ran_ = true;
    failed_ = !succeeded;
    last_end_ = now;
  }

 private:
  Periods periods_;
  Time last_end_;
  bool requested_ = false;
  bool ran_ = false;  // nothing is programmed before the first request
  bool failed_ = false;
};

}  // namespace proxyd
