// Bytes that come in pieces, as lines.
#pragma once

#include <string>
#include <string_view>

namespace base {

class LineReader {
 public:
  // Calls visit(line), without the newline, for every line that is whole by now.
  template <typename Visit>
  void feed(std::string_view bytes, Visit&& visit) {
    while (true) {
      const size_t end = bytes.find('\n');
      if (end == std::string_view::npos) break;
      if (partial_.empty()) {
        visit(bytes.substr(0, end));
      } else {
        partial_ += bytes.substr(0, end);
        visit(std::string_view(partial_));
        partial_.clear();
      }
      bytes.remove_prefix(end + 1);
    }
    partial_ += bytes;
  }
  // ... and for the last one, if it has no newline.
  template <typename Visit>
  void finish(Visit&& visit) {
    if (!partial_.empty()) visit(std::string_view(partial_));
    partial_.clear();
  }

 private:
  std::string partial_;  // an unfinished line
};

}  // namespace base
