// Several error texts as one: a single one stands bare, several read "[e1, e2]", repeats once.
#pragma once

#include <string>
#include <vector>

namespace config {

std::string aggregate(const std::vector<std::string>& errors);

}  // namespace config
