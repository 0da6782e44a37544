// How much tree a text may become. Bytes from outside never decide how much memory we take.
#pragma once

#include <cstddef>

namespace codec {

struct Limits {
  size_t nodes = 4'000'000;  // per document, after expansion of aliases
  int depth = 200;
};

}  // namespace codec
