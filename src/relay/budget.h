// How many descriptors connections may use, all workers together.
#pragma once

#include <atomic>
#include <cstddef>

namespace relay {

class Budget {
 public:
  explicit Budget(size_t descriptors) : left_(static_cast<ptrdiff_t>(descriptors)) {}

  // False: there are not so many left.
  bool take(size_t count) {
    const auto wanted = static_cast<ptrdiff_t>(count);
    ptrdiff_t left = left_.load(std::memory_order_relaxed);
    while (left >= wanted) {
      if (left_.compare_exchange_weak(left, left - wanted, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  // Whether there are or not: somebody has them already.
  void hold(size_t count) {
    left_.fetch_sub(static_cast<ptrdiff_t>(count), std::memory_order_relaxed);
  }
  void give(size_t count) {
    left_.fetch_add(static_cast<ptrdiff_t>(count), std::memory_order_relaxed);
  }

 private:
  std::atomic<ptrdiff_t> left_;
};

}  // namespace relay
