// Durations as Go prints them: "15m0s", "1.5s", "250µs", "0s".
#pragma once

#include <chrono>
#include <string>

namespace klog {

std::string go_duration(std::chrono::nanoseconds duration);

}  // namespace klog
