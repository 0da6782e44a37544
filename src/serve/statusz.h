// /statusz: since when this process runs, and what it is.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "serve/zpage.h"

namespace serve {

struct StatusFacts {
  std::chrono::system_clock::time_point started;
  std::chrono::system_clock::time_point now;
  std::string version;             // "v1.36.4"
  std::vector<std::string> paths;  // other pages that are served
};

ZPage statusz(const StatusFacts& facts);

}  // namespace serve
