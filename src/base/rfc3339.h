// Times as text: "2026-01-02T15:04:05Z", "2026-01-02T15:04:05.939599673+01:00". Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace base {

// In two parts, as years up to 9999 are beyond what nanoseconds can count.
struct Rfc3339 {
  std::chrono::sys_seconds seconds;
  std::chrono::nanoseconds fraction{};  // below a second; further digits are cut off
};

std::optional<Rfc3339> parse_rfc3339(std::string_view text);

}  // namespace base
