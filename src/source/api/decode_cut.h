// Finds where JSON values end, without building anything: how bytes of a stream and of long lists are
// cut into pieces that a parser then looks at one by one.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"

namespace source::api {

inline constexpr std::string_view kJsonSpace = " \t\r\n";

// The end of one object, array or string, whose bytes may come in pieces.
class ValueEnd {
 public:
  // Looks at the next bytes of the value; the first begin with it. The place behind its end, or npos if
  // that is yet to come. Brackets are only counted: "{]" is a value, and the parser's to refuse.
  size_t scan(std::string_view bytes);

  // Whether the value has begun and not ended.
  bool inside() const { return depth_ != 0 || in_string_; }

 private:
  size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

// Calls `visit` with the name in its quotes and the text of the value for each member of the one object
// that the text is; stops at the first error.
base::Result<> each_member(
    std::string_view text,
    const std::function<base::Result<>(std::string_view name, std::string_view value)>& visit);

// The same for the elements of an array.
base::Result<> each_element(std::string_view text,
                            const std::function<base::Result<>(std::string_view value)>& visit);

}  // namespace source::api
