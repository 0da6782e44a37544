// Manifests as people keep them: a text that is JSON or YAML, with one or more documents.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/limits.h"
#include "codec/value.h"

namespace codec {

// Calls `visit` for each document in turn, empty ones left out; errors as in codec/yaml.h.
//
// A text that begins with '{' and a name in quotes is JSON (possibly with tabs, which YAML forbids,
// possibly several documents in a row), unless a line of it begins with "---". If it is not JSON
// after all, it may be YAML in flow style.
base::Result<> parse_stream(std::string_view text,
                            const std::function<base::Result<>(Value)>& visit,
                            const Limits& limits = {});

struct RepeatedKey {
  std::string name;
  Position at;  // of the second, third, ... appearance
};

// Every key that its map has already, in the order of the text.
std::vector<RepeatedKey> repeated_keys(const Value& value);

}  // namespace codec
