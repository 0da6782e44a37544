#include "config/go_duration.h"

#include <array>
#include <cstdint>
#include <optional>

#include "base/text.h"
#include "log/duration.h"

namespace config {
namespace {

constexpr uint64_t kLimit = uint64_t{1} << 63;

struct Unit {
  std::string_view name;
  uint64_t ns;
};

constexpr std::array kUnits{
    Unit{"ns", 1},
    Unit{"us", 1'000},
    Unit{"\u00b5s", 1'000},  // micro sign
    Unit{"\u03bcs", 1'000},  // Greek letter mu
    Unit{"ms", 1'000'000},
    Unit{"s", 1'000'000'000},
    Unit{"m", 60'000'000'000},
    Unit{"h", 3'600'000'000'000},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::unexpected<base::Error> fail(std::string_view what, std::string_view text) {
  return base::fail(base::ErrorCode::Invalid,
                    "time: " + std::string(what) + " duration " + base::quote(text));
}

// "12.5" taken off the front of a text.
struct Number {
  uint64_t whole = 0;
  uint64_t fraction = 0;  // 125 of 1000
  double scale = 1;
  bool digits = false;
};

// nullopt: the number before the point does not fit.
std::optional<uint64_t> take_whole(std::string_view& text) {
  uint64_t value = 0;
  for (; !text.empty() && is_digit(text[0]); text.remove_prefix(1)) {
    if (value > kLimit / 10) return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(text[0] - '0');
    if (value > kLimit) return std::nullopt;
  }
  return value;
}

// Digits that no longer fit are dropped: they are below a nanosecond.
void take_fraction(std::string_view& text, Number& number) {
  bool full = false;
  for (; !text.empty() && is_digit(text[0]); text.remove_prefix(1)) {
    if (full || number.fraction > (kLimit - 1) / 10) {
      full = true;
      continue;
    }
    const uint64_t value = number.fraction * 10 + static_cast<uint64_t>(text[0] - '0');
    if (value > kLimit) {
      full = true;
      continue;
    }
    number.fraction = value;
    number.scale *= 10;
  }
}

std::optional<Number> take_number(std::string_view& text) {
  Number number;
  size_t before = text.size();
  const auto whole = take_whole(text);
  if (!whole) return std::nullopt;
  number.whole = *whole;
  number.digits = text.size() != before;
  if (!text.starts_with('.')) return number;
  text.remove_prefix(1);
  before = text.size();
  take_fraction(text, number);
  number.digits = number.digits || text.size() != before;
  return number;
}

std::string_view take_unit(std::string_view& text) {
  size_t length = 0;
  while (length < text.size() && text[length] != '.' && !is_digit(text[length]))
    ++length;
  const std::string_view unit = text.substr(0, length);
  text.remove_prefix(length);
  return unit;
}

// nullopt: out of range.
std::optional<uint64_t> in_ns(const Number& number, uint64_t unit) {
  if (number.whole > kLimit / unit) return std::nullopt;
  uint64_t ns = number.whole * unit;
  if (number.fraction > 0) {
    ns += static_cast<uint64_t>(static_cast<double>(number.fraction) *
                                (static_cast<double>(unit) / number.scale));
  }
  return ns > kLimit ? std::nullopt : std::optional(ns);
}

base::Result<uint64_t> take_term(std::string_view& rest, std::string_view text) {
  if (rest[0] != '.' && !is_digit(rest[0])) return fail("invalid", text);
  const auto number = take_number(rest);
  if (!number || !number->digits) return fail("invalid", text);
  const std::string_view name = take_unit(rest);
  if (name.empty()) return fail("missing unit in", text);
  for (const Unit& unit : kUnits) {
    if (unit.name != name) continue;
    const auto ns = in_ns(*number, unit.ns);
    return ns ? base::Result<uint64_t>(*ns) : fail("invalid", text);
  }
  return fail("unknown unit " + base::quote(name) + " in", text);
}

}  // namespace

base::Result<std::chrono::nanoseconds> parse_go_duration(std::string_view text) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest == "0") return std::chrono::nanoseconds(0);
  if (rest.empty()) return fail("invalid", text);
  uint64_t total = 0;
  while (!rest.empty()) {
    total += TRY(take_term(rest, text));
    if (total > kLimit) return fail("invalid", text);
  }
  if (total == kLimit && !negative) return fail("invalid", text);
  return std::chrono::nanoseconds(static_cast<int64_t>(negative ? -total : total));
}

std::string format_go_duration(std::chrono::nanoseconds duration) {
  return klog::go_duration(duration);
}

}  // namespace config
