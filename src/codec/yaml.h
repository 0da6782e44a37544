// YAML text to Value by libyaml, one document at a time, so that a long stream never stands in
// memory as a whole tree.
//
// Scalars are typed the way Kubernetes' own YAML library does (YAML 1.1 words for booleans, octal,
// hexadecimal, quoted scalars are strings); keys are strings. Anchors and aliases are expanded
// under a budget, so that a few lines of nested aliases cannot fill the memory; a merge key (<<)
// is resolved.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/limits.h"
#include "codec/value.h"

namespace codec::yaml {

using codec::Limits;

// Calls `visit` for each document of the stream in turn, empty ones left out. Stops at the first
// syntax error ("line 3, column 7: ...") or at the first error that `visit` returns.
base::Result<> parse_stream(std::string_view text,
                            const std::function<base::Result<>(Value)>& visit,
                            const Limits& limits = {});

// The only document of the text; a null Value if there is none, an error if there are several.
base::Result<Value> parse(std::string_view text);

// "line 5: key \"mode\" already set in map" for each repeated key, in the order of the text.
std::vector<std::string> duplicate_keys(const Value& value);

}  // namespace codec::yaml
