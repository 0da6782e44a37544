#include "config/go_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/text.h"

namespace config {
namespace {

using base::ErrorCode;

std::unexpected<base::Error> fail_strconv(std::string_view function, std::string_view text,
                                          std::string_view why) {
  return base::fail(ErrorCode::Invalid, "strconv." + std::string(function) + ": parsing " +
                                            base::quote(text) + ": " + std::string(why));
}

constexpr std::string_view kSyntax = "invalid syntax";
constexpr std::string_view kRange = "value out of range";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes 0x, 0o, 0b or 0 off the front. The 0 of octal stays: it is a digit too.
int take_radix(std::string_view& digits) {
  if (digits.size() < 2 || digits[0] != '0') return 10;
  const char letter = static_cast<char>(digits[1] | 0x20);
  const int radix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (radix != 0) digits.remove_prefix(2);
  return radix == 0 ? 8 : radix;
}

// "1_000" -> "1000"; nullopt where Go does not allow an underscore.
std::optional<std::string> without_underscores(std::string_view digits, bool after_prefix) {
  std::string out;
  char before = after_prefix ? '0' : '_';
  for (const char c : digits) {
    if (c == '_' && before == '_') return std::nullopt;
    if (c != '_') out += c;
    before = c;
  }
  if (before == '_') return std::nullopt;
  return out;
}

enum class Problem { Syntax, Range };

std::expected<uint64_t, Problem> parse_unsigned(std::string_view digits, int radix) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, radix);
  if (end != digits.end() || digits.empty()) return std::unexpected(Problem::Syntax);
  if (error == std::errc::result_out_of_range) return std::unexpected(Problem::Range);
  if (error != std::errc{}) return std::unexpected(Problem::Syntax);
  return value;
}

std::string_view reason(Problem problem) { return problem == Problem::Range ? kRange : kSyntax; }

// e3, E-3, e+3
bool is_exponent(std::string_view suffix) {
  if (!suffix.starts_with('e') && !suffix.starts_with('E')) return false;
  suffix.remove_prefix(1);
  if (suffix.starts_with('+') || suffix.starts_with('-')) suffix.remove_prefix(1);
  return !suffix.empty() && std::ranges::all_of(suffix, is_digit);
}

}  // namespace

base::Result<bool> parse_go_bool(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTrue{"1", "t", "T", "true", "TRUE", "True"};
  constexpr std::array<std::string_view, 6> kFalse{"0", "f", "F", "false", "FALSE", "False"};
  if (std::ranges::find(kTrue, text) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, text) != kFalse.end()) return false;
  return fail_strconv("ParseBool", text, kSyntax);
}

base::Result<int32_t> parse_go_int32(std::string_view text) {
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  const size_t length = digits.size();
  const int radix = take_radix(digits);
  const auto plain = without_underscores(digits, digits.size() != length);
  if (!plain) return fail_strconv("ParseInt", text, kSyntax);
  const auto size = parse_unsigned(*plain, radix);
  if (!size) return fail_strconv("ParseInt", text, reason(size.error()));
  constexpr uint64_t kMax = std::numeric_limits<int32_t>::max();
  if (*size > kMax + (negative ? 1 : 0)) return fail_strconv("ParseInt", text, kRange);
  const auto value = static_cast<int64_t>(*size);
  return static_cast<int32_t>(negative ? -value : value);
}

base::Result<uint32_t> parse_go_level(std::string_view text) {
  const auto value = parse_unsigned(text, 10);
  if (!value) return fail_strconv("ParseUint", text, reason(value.error()));
  if (*value > std::numeric_limits<int32_t>::max()) return fail_strconv("ParseUint", text, kRange);
  return static_cast<uint32_t>(*value);
}

base::Result<float> parse_go_float32(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with('+') && !digits.substr(1).starts_with('-')) digits.remove_prefix(1);
  float value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (end != digits.end() || digits.empty()) return fail_strconv("ParseFloat", text, kSyntax);
  if (error == std::errc::result_out_of_range) return fail_strconv("ParseFloat", text, kRange);
  if (error != std::errc{}) return fail_strconv("ParseFloat", text, kSyntax);
  return value;
}

std::string format_go_float32(float number) {
  const float size = std::fabs(number);
  const bool plain = size == 0 || (size >= 1e-4F && size < 1e6F);
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  return std::string(digits, end.ptr);
}

base::Result<std::string> parse_quantity(std::string_view text) {
  constexpr std::array<std::string_view, 16> kSuffixes{
      "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  std::string_view number = text;
  if (number.starts_with('+') || number.starts_with('-')) number.remove_prefix(1);
  const size_t length = std::min(number.find_first_not_of("0123456789."), number.size());
  const std::string_view suffix = number.substr(length);
  number = number.substr(0, length);
  if (std::ranges::none_of(number, is_digit) || std::ranges::count(number, '.') > 1) {
    return base::fail(ErrorCode::Invalid,
                      "quantities must match the regular expression "
                      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
  }
  const bool exponent = is_exponent(suffix);
  if (!exponent && std::ranges::find(kSuffixes, suffix) == kSuffixes.end()) {
    return base::fail(ErrorCode::Invalid, "unable to parse quantity's suffix");
  }
  const bool zero = number.find_first_not_of("0.") == std::string_view::npos;
  return zero ? std::string("0") : std::string(text.substr(text.starts_with('+') ? 1 : 0));
}

base::Result<std::vector<std::string>> parse_csv(std::string_view text) {
  std::vector<std::string> values;
  if (text.empty()) return values;
  std::string value;
  bool quoted = false;
  bool at_start = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && text.substr(i + 1).starts_with('"')) {
      value += text[++i];
    } else if (c == '"' && (quoted || at_start)) {
      quoted = !quoted;
    } else if (c == '"') {
      return base::fail(ErrorCode::Invalid, "parse error on line 1, column " +
                                                std::to_string(i + 1) +
                                                ": bare \" in non-quoted field");
    } else if (c == ',' && !quoted) {
      values.push_back(std::exchange(value, {}));
    } else {
      value += c;
    }
    at_start = c == ',' && !quoted;
  }
  if (quoted) {
    return base::fail(ErrorCode::Invalid, "parse error on line 1, column " +
                                              std::to_string(text.size() + 1) +
                                              ": extraneous or missing \" in quoted-field");
  }
  values.push_back(std::move(value));
  return values;
}

}  // namespace config
