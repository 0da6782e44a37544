// The 16 characters that end the names of per-service chains (and of other kernel objects named
// after a Service): the first 80 bits of a SHA-256, in base32.
#pragma once

#include <array>
#include <string_view>

namespace codec {

using ChainHash = std::array<char, 16>;

inline std::string_view view(const ChainHash& hash) { return {hash.data(), hash.size()}; }

// Thread-safe; each thread keeps its own digest context.
ChainHash chain_hash(std::string_view text);

}  // namespace codec
