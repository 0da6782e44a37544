#include "base/rfc3339.h"

#include <algorithm>

#include "base/text.h"

namespace base {
namespace {

// Takes a number of exactly so many digits from the front.
std::optional<int> take_digits(std::string_view& text, size_t count) {
  if (text.size() < count || text[0] == '-') return std::nullopt;
  const auto number = parse_number<int>(text.substr(0, count));
  if (number) text.remove_prefix(count);
  return number;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// The numbers of one part of a time, with a sign between them: "15:04".
struct Clockface {
  int hours = 0;
  int minutes = 0;
};

std::optional<Clockface> take_clockface(std::string_view& text) {
  const auto hours = take_digits(text, 2);
  if (!hours || *hours > 23 || !take(text, ':')) return std::nullopt;
  const auto minutes = take_digits(text, 2);
  if (!minutes || *minutes > 59) return std::nullopt;
  return Clockface{*hours, *minutes};
}

std::optional<std::chrono::sys_days> take_date(std::string_view& text) {
  const auto year = take_digits(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date);
}

// "Z", "+01:00".
std::optional<std::chrono::minutes> take_offset(std::string_view& text) {
  if (take(text, 'Z')) return std::chrono::minutes(0);
  const bool east = text.starts_with('+');
  if (!take(text, '+') && !take(text, '-')) return std::nullopt;
  const auto offset = take_clockface(text);
  if (!offset) return std::nullopt;
  const std::chrono::minutes minutes(offset->hours * 60 + offset->minutes);
  return east ? minutes : -minutes;
}

// The digits behind the point, of which there must be one.
std::optional<std::chrono::nanoseconds> take_fraction(std::string_view& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) return std::nullopt;
  int64_t nanoseconds = 0;
  for (size_t i = 0; i < 9; ++i)
    nanoseconds = nanoseconds * 10 + (i < digits ? text[i] - '0' : 0);
  text.remove_prefix(digits);
  return std::chrono::nanoseconds(nanoseconds);
}

}  // namespace

std::optional<Rfc3339> parse_rfc3339(std::string_view text) {
  const auto date = take_date(text);
  if (!date || !take(text, 'T')) return std::nullopt;
  const auto clockface = take_clockface(text);
  if (!clockface || !take(text, ':')) return std::nullopt;
  const auto seconds = take_digits(text, 2);
  if (!seconds || *seconds > 59) return std::nullopt;
  std::optional<std::chrono::nanoseconds> fraction(0);
  if (take(text, '.')) fraction = take_fraction(text);
  if (!fraction) return std::nullopt;
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  return Rfc3339{*date + std::chrono::hours(clockface->hours) +
                     std::chrono::minutes(clockface->minutes) + std::chrono::seconds(*seconds) -
                     *offset,
                 *fraction};
}

}  // namespace base
