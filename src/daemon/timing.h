// Durations for log lines.
#pragma once

#include <chrono>

namespace proxyd {

inline double milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace proxyd
