#include "model/objects.h"

namespace model {

TextRef EndpointSlice::intern(std::string_view value) {
  if (value.empty()) return {};
  size_t at = text.find(value);
  if (at == std::string::npos) {
    at = text.size();
    text += value;
  }
  return {static_cast<uint32_t>(at), static_cast<uint32_t>(value.size())};
}

}  // namespace model
