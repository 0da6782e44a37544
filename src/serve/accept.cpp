#include "serve/accept.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"

namespace serve {
namespace {

// 1 unless it is a number.
double parse_quality(const std::string& text) {
  char* end = nullptr;
  const double quality = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? 1 : quality;
}

void add_parameter(Accepted& accepted, std::string_view text) {
  const size_t equals = text.find('=');
  const std::string name = base::lower(base::trim(text.substr(0, equals)));
  std::string_view value =
      equals == std::string_view::npos ? std::string_view() : base::trim(text.substr(equals + 1));
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
    value = value.substr(1, value.size() - 2);
  if (name == "q") {
    accepted.quality = parse_quality(std::string(value));
  } else if (!name.empty()) {
    accepted.parameters.emplace_back(name, value);
  }
}

}  // namespace

std::string_view Accepted::parameter(std::string_view name) const {
  for (const auto& [key, value] : parameters)
    if (key == name) return value;
  return {};
}

std::vector<Accepted> parse_accept(std::string_view header) {
  std::vector<Accepted> all;
  for (const std::string_view clause : base::split(header, ',')) {
    const auto parts = base::split(clause, ';');
    Accepted accepted{.type = base::lower(base::trim(parts[0])), .parameters = {}};
    if (accepted.type.empty()) continue;
    for (size_t i = 1; i < parts.size(); ++i)
      add_parameter(accepted, parts[i]);
    if (accepted.quality > 0) all.push_back(std::move(accepted));
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Accepted::quality);
  return all;
}

bool accepts(std::string_view header, std::string_view type) {
  return std::ranges::any_of(parse_accept(header),
                             [&](const Accepted& one) { return one.type == type; });
}

}  // namespace serve
