#include "log/duration.h"

#include <cstdint>

#include "base/text.h"

namespace klog {
namespace {

// "1.5" for 1500 and 3 digits: the fraction without its trailing zeros.
void append_decimal(std::string& out, uint64_t value, int digits) {
  uint64_t scale = 1;
  for (int i = 0; i < digits; ++i)
    scale *= 10;
  base::append_number(out, value / scale);
  uint64_t rest = value % scale;
  if (rest == 0) return;
  out += '.';
  for (; rest != 0; rest = rest * 10 % scale) {
    out += static_cast<char>('0' + rest * 10 / scale);
  }
}

// Below one second the largest unit that fits; nothing in front of it.
void append_short(std::string& out, uint64_t ns) {
  if (ns >= 1'000'000) {
    append_decimal(out, ns, 6);
    out += "ms";
  } else if (ns >= 1'000) {
    append_decimal(out, ns, 3);
    out += "µs";
  } else {
    base::append_number(out, ns);
    out += "ns";
  }
}

void append_long(std::string& out, uint64_t ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  constexpr uint64_t kMinute = 60 * kSecond;
  constexpr uint64_t kHour = 60 * kMinute;
  if (ns >= kHour) {
    base::append_number(out, ns / kHour);
    out += 'h';
  }
  if (ns >= kMinute) {
    base::append_number(out, ns % kHour / kMinute);
    out += 'm';
  }
  append_decimal(out, ns % kMinute, 9);
  out += 's';
}

}  // namespace

std::string go_duration(std::chrono::nanoseconds duration) {
  const int64_t ns = duration.count();
  if (ns == 0) return "0s";
  std::string out;
  if (ns < 0) out += '-';
  // Negated as unsigned, so that the smallest int64 has a magnitude too.
  const uint64_t magnitude = ns < 0 ? -static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  if (magnitude < 1'000'000'000) {
    append_short(out, magnitude);
  } else {
    append_long(out, magnitude);
  }
  return out;
}

}  // namespace klog
