// Durations in Go's notation: signed decimal numbers with units, "1h30m", "1.5s", "0".
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace config {

// Errors read as Go's: time: unknown unit "x" in duration "5x".
base::Result<std::chrono::nanoseconds> parse_go_duration(std::string_view text);

// "15m0s", "1.5s", "250µs", "0s".
std::string format_go_duration(std::chrono::nanoseconds duration);

}  // namespace config
