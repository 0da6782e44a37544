// Numbers, booleans and quantities in text, read as Go's strconv and Kubernetes read them, with
// their error texts: strconv.ParseInt: parsing "foo": invalid syntax.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace config {

// 1, t, T, true, TRUE, True and their opposites.
base::Result<bool> parse_go_bool(std::string_view text);

// Any base Go writes: 14, 0x0e, 016, 0b1110, 1_000.
base::Result<int32_t> parse_go_int32(std::string_view text);

// Decimal, at most 2147483647: klog's verbosity.
base::Result<uint32_t> parse_go_level(std::string_view text);

base::Result<float> parse_go_float32(std::string_view text);

// The shortest text that reads back the same: 5, 0.5, 1e+06.
std::string format_go_float32(float number);

// A Kubernetes quantity ("0", "4Ki", "1.5M"); gives its text, where every zero is "0".
base::Result<std::string> parse_quantity(std::string_view text);

// One line of comma-separated values; a value may stand in double quotes. "" has no values.
base::Result<std::vector<std::string>> parse_csv(std::string_view text);

}  // namespace config
