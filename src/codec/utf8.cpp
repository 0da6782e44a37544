#include "codec/utf8.h"

namespace codec {

namespace {

struct Lead {
  size_t length;
  unsigned char second_min;  // the only byte whose range depends on the first one
  unsigned char second_max;
};

// Table 3-7 of the Unicode standard: well-formed byte sequences.
Lead lead_of(unsigned char first) {
  if (first < 0x80) return {1, 0, 0};
  if (first < 0xc2) return {0, 0, 0};
  if (first < 0xe0) return {2, 0x80, 0xbf};
  if (first == 0xe0) return {3, 0xa0, 0xbf};
  if (first == 0xed) return {3, 0x80, 0x9f};
  if (first < 0xf0) return {3, 0x80, 0xbf};
  if (first == 0xf0) return {4, 0x90, 0xbf};
  if (first < 0xf4) return {4, 0x80, 0xbf};
  if (first == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

char tail_byte(uint32_t code_point, int shift) {
  return static_cast<char>(0x80 | (code_point >> shift & 0x3f));
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.length > text.size()) return 0;
  for (size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < (i == 1 ? lead.second_min : 0x80)) return 0;
    if (byte > (i == 1 ? lead.second_max : 0xbf)) return 0;
  }
  return lead.length;
}

void append_utf8(std::string& out, uint32_t code_point) {
  if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000)) {
    out += kReplacement;
  } else if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xc0 | code_point >> 6);
    out += tail_byte(code_point, 0);
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xe0 | code_point >> 12);
    out += tail_byte(code_point, 6);
    out += tail_byte(code_point, 0);
  } else {
    out += static_cast<char>(0xf0 | code_point >> 18);
    out += tail_byte(code_point, 12);
    out += tail_byte(code_point, 6);
    out += tail_byte(code_point, 0);
  }
}

}  // namespace codec
