#include "codec/value.h"

#include <array>
#include <ranges>

namespace codec {

const Value* Value::find(std::string_view name) const {
  const Object* members = as_object();
  if (members == nullptr) return nullptr;
  for (const Member& member : std::views::reverse(*members)) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

std::string_view Value::kind_name() const {
  constexpr std::array<std::string_view, 7> kNames{"null",   "bool",  "number", "number",
                                                   "string", "array", "object"};
  return kNames[data_.index()];
}

}  // namespace codec
