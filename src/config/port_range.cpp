#include "config/port_range.h"

#include <limits>
#include <optional>
#include <string>

#include "base/text.h"

namespace config {
namespace {

using base::ErrorCode;
using base::Result;

struct Ends {
  int64_t first = 0;
  int64_t last = 0;
};

// Digits only: a sign would be a second separator.
std::optional<int64_t> port_number(std::string_view text) {
  return base::parse_number<uint32_t>(text);
}

std::optional<Ends> ends_of(std::string_view text) {
  const size_t separator = text.find_first_of("-+");
  const auto first = port_number(text.substr(0, separator));
  if (!first) return std::nullopt;
  if (separator == std::string_view::npos) return Ends{*first, *first};
  const auto second = port_number(text.substr(separator + 1));
  if (!second) return std::nullopt;
  return Ends{*first, text[separator] == '+' ? *first + *second : *second};
}

Result<PortRange> invalid(std::string_view why, std::string_view text) {
  return base::fail(ErrorCode::Invalid, std::string(why) + ": " + std::string(text));
}

}  // namespace

Result<PortRange> parse_port_range(std::string_view text) {
  text = base::trim(text);
  if (text.empty()) return PortRange{};
  const auto ends = ends_of(text);
  if (!ends) return invalid("unable to parse port range", text);
  constexpr int64_t kMost = std::numeric_limits<uint16_t>::max();
  if (ends->first > kMost || ends->last > kMost) {
    return invalid("the port range cannot be greater than 65535", text);
  }
  if (ends->last < ends->first) return invalid("end port cannot be less than start port", text);
  return PortRange{static_cast<uint16_t>(ends->first), static_cast<uint16_t>(ends->last)};
}

}  // namespace config
