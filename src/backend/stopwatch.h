// How long the stages of a sync take.
#pragma once

#include <chrono>

namespace backend {

// Adds the time from construction to destruction to a duration.
class Stopwatch {
 public:
  explicit Stopwatch(std::chrono::nanoseconds& total) : total_(total) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { total_ += std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::nanoseconds& total_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

template <typename Work>
auto timed(std::chrono::nanoseconds& total, Work&& work) {
  const Stopwatch watch(total);
  return work();
}

}  // namespace backend
