// UTF-8, one code point at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace codec {

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// The length in bytes of the well-formed code point at the start of `text`; 0 if there is none
// (cut short, overlong, a surrogate, beyond U+10FFFF).
size_t utf8_length(std::string_view text);

// Appends a code point; U+FFFD in place of what is none.
void append_utf8(std::string& out, uint32_t code_point);

}  // namespace codec
