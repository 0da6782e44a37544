// What a client would like to get: the headers Accept and Accept-Encoding. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace serve {

// "application/json;v=v1beta1;q=0.5"
struct Accepted {
  std::string type;                                             // in lower case
  std::vector<std::pair<std::string, std::string>> parameters;  // names in lower case, without q
  double quality = 1;

  // "" if there is none.
  std::string_view parameter(std::string_view name) const;
};

// The best first, of equals the first one named. What is refused (q=0) is left out.
std::vector<Accepted> parse_accept(std::string_view header);

// Whether that type or coding is named, and not refused.
bool accepts(std::string_view header, std::string_view type);

}  // namespace serve
