// Small functions on text. Everything here is pure.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace base {

// Appends a number in decimal; the way numbers get into rules (no locale, no allocation).
template <std::integral T>
void append_number(std::string& out, T value) {
  char digits[24];
  auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

// A whole decimal number, nothing before or behind it.
template <std::integral T>
std::optional<T> parse_number(std::string_view text, int radix = 10) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, radix);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// "a,b,,c" at ',' -> {"a", "b", "", "c"}; an empty text gives one empty piece.
std::vector<std::string_view> split(std::string_view text, char separator);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Without white space (space, \t, \n, \r, \v, \f) at both ends.
std::string_view trim(std::string_view text);

// ASCII only.
std::string lower(std::string_view text);

// As Go's %q prints it: in double quotes, with \n, \t, \", \\ and \x.. escapes.
std::string quote(std::string_view text);

}  // namespace base
