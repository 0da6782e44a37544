#include "plan/annotation.h"

#include "base/text.h"

namespace plan {
namespace {

constexpr size_t kMaxShown = 100;

}  // namespace

// Never cut within a character of UTF-8.
std::string shown(std::string_view text) {
  if (text.size() <= kMaxShown) return base::quote(text);
  size_t end = kMaxShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return base::quote(text.substr(0, end)) + "...";
}

std::string annotation_problem(std::string_view annotation, const std::string& text) {
  return "annotation " + std::string(annotation) + ": " + text;
}

}  // namespace plan
