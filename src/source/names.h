// Puts names of nodes and zones into the text of an EndpointSlice, each once.
#pragma once

#include <cstdint>
#include <string_view>

#include <boost/unordered/unordered_flat_map.hpp>

#include "model/objects.h"

namespace source {

// REQUIRES: the slice and the names live as long as this does (the names stand in the document).
class Names {
 public:
  explicit Names(model::EndpointSlice& slice) : slice_(slice) {}

  model::TextRef intern(std::string_view name) {
    if (name.empty()) return {};
    const auto [entry, fresh] = known_.try_emplace(name);
    if (fresh) {
      entry->second = {static_cast<uint32_t>(slice_.text.size()),
                       static_cast<uint32_t>(name.size())};
      slice_.text += name;
    }
    return entry->second;
  }

 private:
  model::EndpointSlice& slice_;
  boost::unordered_flat_map<std::string_view, model::TextRef> known_;
};

}  // namespace source
