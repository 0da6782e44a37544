// JSON text to Value, and the two ways we write JSON.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/limits.h"
#include "codec/value.h"

namespace codec::json {

// One document. Errors read "line 3, column 7: ..."; columns count bytes. Nesting is limited to
// 200 levels. Numbers without fraction or exponent that fit are int64, all others double. As Go
// does, what is not UTF-8 and lone surrogates become U+FFFD.
base::Result<Value> parse(std::string_view text, const Limits& limits = {});

// Calls `visit` for each of the documents that stand one behind the other, with or without white
// space between them. Stops at the first error, be it of the syntax or one that `visit` returns.
base::Result<> parse_stream(std::string_view text,
                            const std::function<base::Result<>(Value)>& visit,
                            const Limits& limits = {});

// Appends text in double quotes with JSON's escapes. Bytes that are not UTF-8 become U+FFFD.
void append_string(std::string& out, std::string_view text);

// Appends a Value on one line, members in their order. What JSON cannot say (infinity, not a
// number) is null.
void append(std::string& out, const Value& value);

}  // namespace codec::json
