#include "source/api/decode_cut.h"

#include <algorithm>

namespace source::api {

namespace {

constexpr size_t kNowhere = std::string_view::npos;

// A text that is consumed from its start.
class Cutter {
 public:
  explicit Cutter(std::string_view text) : rest_(text) {}

  bool take(char c) {
    skip_space();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool at_end() {
    skip_space();
    return rest_.empty();
  }

  // The text of one value of any kind; empty if there is none.
  std::string_view value() {
    skip_space();
    if (rest_.empty()) return {};
    const bool nested = rest_[0] == '{' || rest_[0] == '[' || rest_[0] == '"';
    const size_t end =
        nested ? ValueEnd().scan(rest_) : std::min(rest_.find_first_of(",]} \t\r\n"), rest_.size());
    if (end == kNowhere) return {};
    const auto out = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return out;
  }

 private:
  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kJsonSpace), rest_.size()));
  }

  std::string_view rest_;
};

std::unexpected<base::Error> broken(std::string_view expected) {
  return base::fail(base::ErrorCode::Invalid, "broken JSON: expected " + std::string(expected));
}

}  // namespace

size_t ValueEnd::scan(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_) {
      if (c == '\\') escaped_ = true;
      if (c != '"') continue;
      in_string_ = false;
      if (depth_ == 0) return i + 1;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (--depth_ == 0) return i + 1;
    }
  }
  return kNowhere;
}

base::Result<> each_member(
    std::string_view text,
    const std::function<base::Result<>(std::string_view name, std::string_view value)>& visit) {
  Cutter cutter(text);
  if (!cutter.take('{')) return broken("an object");
  bool more = !cutter.take('}');
  while (more) {
    const auto name = cutter.value();
    if (!name.starts_with('"')) return broken("a name");
    if (!cutter.take(':')) return broken("':'");
    const auto value = cutter.value();
    if (value.empty()) return broken("a value");
    TRY(visit(name, value));
    more = cutter.take(',');
    if (!more && !cutter.take('}')) return broken("',' or '}'");
  }
  if (!cutter.at_end()) return broken("nothing behind the object");
  return {};
}

base::Result<> each_element(std::string_view text,
                            const std::function<base::Result<>(std::string_view value)>& visit) {
  Cutter cutter(text);
  if (!cutter.take('[')) return broken("an array");
  bool more = !cutter.take(']');
  while (more) {
    const auto value = cutter.value();
    if (value.empty()) return broken("a value");
    TRY(visit(value));
    more = cutter.take(',');
    if (!more && !cutter.take(']')) return broken("',' or ']'");
  }
  if (!cutter.at_end()) return broken("nothing behind the array");
  return {};
}

}  // namespace source::api
