// /flagz: every flag with its value, as the command line left it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "serve/zpage.h"

namespace serve {

// Sorted by name.
using FlagTexts = std::vector<std::pair<std::string, std::string>>;

ZPage flagz(const FlagTexts& flags);

}  // namespace serve
