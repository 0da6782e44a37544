// Reads a command line the way Go's pflag does: --name=value, --name value, --flag, -v 4, -v4,
// -v=4; `--` ends the flags; other words are positional and may stand anywhere.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/flag_table.h"

namespace config {

struct ParsedFlags {
  FlagTarget target;
  std::set<std::string_view> given;  // names as in the table
  std::vector<std::string> positional;
  std::string deprecation_notices;  // one line for each use of a deprecated flag

  bool was_given(std::string_view name) const { return given.contains(name); }
};

// Fills `out` up to the first error: unknown flag: --bogus.
base::Result<> parse_flags(std::span<const std::string> args, ParsedFlags& out);

}  // namespace config
