// The configuration file, from its text to a Document.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/file.h"

namespace config::file {

struct Decoded {
  Document document;
  // What a strict reader refuses and a lenient one passes over: unknown fields, repeated keys.
  std::vector<std::string> strict_errors;
};

// YAML or JSON; a text whose first character is '{' is JSON.
base::Result<Decoded> decode(std::string_view text);

}  // namespace config::file
