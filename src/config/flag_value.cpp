// Flag values: from text into their place, and back.
#include <array>

#include "base/check.h"
#include "base/text.h"
#include "config/flag_table.h"
#include "config/go_duration.h"
#include "config/go_value.h"
#include "config/host_port.h"
#include "config/version.h"
#include "net/ip.h"

namespace config {
namespace {

using base::ErrorCode;
using base::Result;

// The value of a flag; the table pairs types and places.
template <typename T>
T& value_of(const Flag& flag, FlagTarget& target) {
  const auto* place = std::get_if<PlaceOf<T>>(&flag.place);
  CHECK(place != nullptr);
  return (*place)(target);
}

std::unexpected<base::Error> fail(std::string text) {
  return base::fail(ErrorCode::Invalid, std::move(text));
}

// Parity: an empty text is accepted and changes nothing, here and for IP:port.
Result<> set_ip(std::string& out, std::string_view text) {
  if (text.empty()) return {};
  if (!net::IpAddr::parse(text)) return fail(base::quote(text) + " is not a valid IP address");
  out = text;
  return {};
}

Result<> set_ip_port(std::string& out, std::string_view text) {
  if (text.empty() || net::IpAddr::parse(text)) return set_ip(out, text);
  const auto parts = TRY_CONTEXT(split_host_port(text),
                                 base::quote(text) + " is not in a valid format (ip or ip:port)");
  if (!net::IpAddr::parse(parts.host)) {
    return fail(base::quote(parts.host) + " is not a valid IP address");
  }
  if (!base::parse_number<uint16_t>(parts.port)) {
    return fail(base::quote(parts.port) + " is not a valid number");
  }
  out = text;
  return {};
}

Result<> set_strings(std::vector<std::string>& out, std::string_view text, bool repeated) {
  const auto values = TRY(parse_csv(text));
  if (!repeated) out.clear();
  out.insert(out.end(), values.begin(), values.end());
  return {};
}

Result<> set_gate(std::map<std::string, bool>& out, std::string_view name, std::string_view text) {
  const auto value = parse_go_bool(text);
  if (!value) {
    return fail("invalid value of " + std::string(name) + ": " + std::string(text) +
                ", err: " + value.error().text);
  }
  out[std::string(name)] = *value;
  return {};
}

// "A=true, B=false"; an empty piece is passed over.
Result<> set_gates(std::map<std::string, bool>& out, std::string_view text) {
  for (const std::string_view pair : base::split(text, ',')) {
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return fail("malformed pair, expect string=bool");
    TRY(set_gate(out, base::trim(pair.substr(0, equals)), base::trim(pair.substr(equals + 1))));
  }
  return {};
}

// "runner=4,cod*=6"
Result<> set_modules(std::vector<klog::ModuleLevel>& out, std::string_view text) {
  for (const std::string_view entry : base::split(text, ',')) {
    if (entry.empty()) continue;
    const auto parts = base::split(entry, '=');
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
      return fail(base::quote(entry) + " does not have the pattern=N format");
    }
    const uint32_t level =
        TRY_CONTEXT(parse_go_level(parts[1]), "parsing verbosity in " + base::quote(entry));
    out.push_back({std::string(parts[0]), static_cast<int>(level)});
  }
  return {};
}

// true, false, raw, or a version to report.
Result<> set_version(std::string& out, std::string_view text) {
  if (text == "raw") {
    out = text;
  } else if (text.starts_with('v')) {
    TRY(check_reported_version(text));
    out = text;
  } else {
    out = TRY(parse_go_bool(text)) ? "true" : "false";
  }
  return {};
}

// `out` = the value of a Result.
template <typename T, typename U>
Result<> assign(T& out, Result<U> value) {
  out = TRY(std::move(value));
  return {};
}

// Every piece of text that a value has as Go's flag library shows it.
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(int32_t value) { return std::to_string(value); }
std::string text_of(uint32_t value) { return std::to_string(value); }
std::string text_of(float value) { return format_go_float32(value); }
std::string text_of(Duration value) { return format_go_duration(value); }
std::string text_of(const std::string& value) { return value; }
std::string text_of(const std::vector<std::string>& value) {
  return "[" + base::join(value, ",") + "]";
}
std::string text_of(const std::map<std::string, bool>& value) {
  std::vector<std::string> pairs;
  pairs.reserve(value.size());
  for (const auto& [name, on] : value)
    pairs.push_back(name + "=" + text_of(on));
  return base::join(pairs, ",");
}
std::string text_of(const std::vector<klog::ModuleLevel>& value) {
  std::vector<std::string> entries;
  entries.reserve(value.size());
  for (const auto& [pattern, level] : value)
    entries.push_back(pattern + "=" + text_of(level));
  return base::join(entries, ",");
}

}  // namespace

Result<> set_flag(const Flag& flag, FlagTarget& target, std::string_view text, bool repeated) {
  switch (flag.type) {
    case FlagType::Bool:
      return assign(value_of<bool>(flag, target), parse_go_bool(text));
    case FlagType::Int32:
      return assign(value_of<int32_t>(flag, target), parse_go_int32(text));
    case FlagType::Float32:
      return assign(value_of<float>(flag, target), parse_go_float32(text));
    case FlagType::Period:
      return assign(value_of<Duration>(flag, target), parse_go_duration(text));
    case FlagType::Level:
      return assign(value_of<uint32_t>(flag, target), parse_go_level(text));
    case FlagType::Quantity:
      return assign(value_of<std::string>(flag, target), parse_quantity(text));
    case FlagType::String:
      value_of<std::string>(flag, target) = text;
      return {};
    case FlagType::Ip:
      return set_ip(value_of<std::string>(flag, target), text);
    case FlagType::IpPort:
      return set_ip_port(value_of<std::string>(flag, target), text);
    case FlagType::Version:
      return set_version(value_of<std::string>(flag, target), text);
    case FlagType::Strings:
      return set_strings(value_of<std::vector<std::string>>(flag, target), text, repeated);
    case FlagType::Gates:
      return set_gates(value_of<std::map<std::string, bool>>(flag, target), text);
    case FlagType::Modules:
      return set_modules(value_of<std::vector<klog::ModuleLevel>>(flag, target), text);
  }
  return {};
}

std::string flag_text(const Flag& flag, const FlagTarget& target) {
  // Places give access to a target that may be written; nothing is written here.
  auto& place_owner = const_cast<FlagTarget&>(target);
  return std::visit([&](const auto& place) { return text_of(place(place_owner)); }, flag.place);
}

std::string_view type_name(const Flag& flag) {
  constexpr std::array<std::string_view, 13> kNames{
      "",   "int32",   "float",         "duration",      "level",    "string", "strings",
      "ip", "ip:port", "name=bool,...", "pattern=N,...", "quantity", "version"};
  // A version may stand alone, and usually does.
  if (flag.type == FlagType::Version) return "";
  return kNames[static_cast<size_t>(flag.type)];
}

}  // namespace config
