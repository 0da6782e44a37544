// What a plain (unquoted) YAML scalar means.
//
// Parity: go-yaml v2 as Kubernetes carries it. YAML 1.1 words for booleans (yes, no, on, off, y,
// n), numbers with 0x, 0o, 0b or a leading 0 for octal, underscores left out. Base 60 is not a
// number, a date is a string.
#pragma once

#include <optional>
#include <string_view>

#include "codec/value.h"

namespace codec::yaml {

// Whether its first character already says that it is nothing but a text: most scalars are.
bool is_plainly_text(std::string_view text);

Value resolve_plain(std::string_view text);

// The scalar as the type that its tag names; nullopt if it is not one. The tag is in its long form
// ("tag:yaml.org,2002:int"); a tag that is not of YAML's own set gives a string.
std::optional<Value> resolve_tagged(std::string_view tag, std::string_view text);

}  // namespace codec::yaml
