// gzip, for pages that are long and asked for often. Pure.
#pragma once

#include <string>
#include <string_view>

namespace serve {

// At zlib's fastest level: the loop waits for it.
std::string gzip(std::string_view text);

}  // namespace serve
