#include "config/aggregate.h"

#include <algorithm>

#include "base/text.h"

namespace config {

std::string aggregate(const std::vector<std::string>& errors) {
  std::vector<std::string> distinct;
  for (const std::string& error : errors) {
    if (std::ranges::find(distinct, error) == distinct.end()) distinct.push_back(error);
  }
  if (distinct.size() == 1) return distinct.front();
  return "[" + base::join(distinct, ", ") + "]";
}

}  // namespace config
