#include "codec/yaml_scalar.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>

#include "base/text.h"

namespace codec::yaml {

namespace {

constexpr std::string_view kTagPrefix = "tag:yaml.org,2002:";

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

std::optional<Value> parse_word(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (one_of(text, {"", "~", "null", "Null", "NULL"})) return Value();
  if (one_of(text, {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) {
    return Value(true);
  }
  if (one_of(text, {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) {
    return Value(false);
  }
  if (one_of(text, {".nan", ".NaN", ".NAN"})) {
    return Value(std::numeric_limits<double>::quiet_NaN());
  }
  if (one_of(text, {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"})) return Value(kInfinity);
  if (one_of(text, {"-.inf", "-.Inf", "-.INF"})) return Value(-kInfinity);
  return std::nullopt;
}

// Takes "0x", "0o", "0b" or "0" off the front, as Go's base 0 does.
int take_radix(std::string_view& digits) {
  if (digits.size() < 2 || digits[0] != '0') return 10;
  const char letter = static_cast<char>(digits[1] | 0x20);
  const int radix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  digits.remove_prefix(radix == 0 ? 1 : 2);
  return radix == 0 ? 8 : radix;
}

std::optional<Value> parse_int(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = text;
  if (negative || text.starts_with('+')) digits.remove_prefix(1);
  const int radix = take_radix(digits);
  const auto size = base::parse_number<uint64_t>(digits, radix);
  if (!size) return std::nullopt;
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (*size <= kMax) {
    const auto number = static_cast<int64_t>(*size);
    return Value(negative ? -number : number);
  }
  if (negative && *size == kMax + 1) return Value(std::numeric_limits<int64_t>::min());
  const auto number = static_cast<double>(*size);
  return Value(negative ? -number : number);
}

std::optional<Value> parse_float(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  // from_chars would also take "infinity" and "nan".
  if (text.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error != std::errc{} || end != text.end()) return std::nullopt;
  return Value(number);
}

std::optional<Value> parse_number(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (text[0] == '.') return parse_float(text);
  if (text[0] != '+' && text[0] != '-' && (text[0] < '0' || text[0] > '9')) return std::nullopt;
  std::string buffer;
  if (text.find('_') != std::string_view::npos) {
    std::ranges::copy_if(text, std::back_inserter(buffer), [](char c) { return c != '_'; });
    text = buffer;
  }
  auto number = parse_int(text);
  return number ? number : parse_float(text);
}

}  // namespace

bool is_plainly_text(std::string_view text) {
  return !text.empty() &&
         std::string_view("0123456789+-.~yYnNtTfFoO").find(text[0]) == std::string_view::npos;
}

Value resolve_plain(std::string_view text) {
  if (is_plainly_text(text)) return Value(std::string(text));
  if (auto word = parse_word(text)) return *std::move(word);
  if (auto number = parse_number(text)) return *std::move(number);
  return Value(std::string(text));
}

std::optional<Value> resolve_tagged(std::string_view tag, std::string_view text) {
  if (!tag.starts_with(kTagPrefix)) return Value(std::string(text));
  const std::string_view type = tag.substr(kTagPrefix.size());
  if (type == "str" || type == "timestamp") return Value(std::string(text));
  Value value = resolve_plain(text);
  if (type == "null" && value.is_null()) return value;
  if (type == "bool" && value.as_bool() != nullptr) return value;
  if (type == "int" && value.as_int() != nullptr) return value;
  if (type == "float" && value.as_double() != nullptr) return value;
  if (const int64_t* whole = value.as_int(); type == "float" && whole != nullptr) {
    return Value(static_cast<double>(*whole));
  }
  return std::nullopt;
}

}  // namespace codec::yaml
