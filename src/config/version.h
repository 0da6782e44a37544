// The version this program stands for, and how --version tells it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace config {

inline constexpr std::string_view kVersion = "v1.36.4";

// May `version` be reported instead of ours? It must keep major, minor and patch.
base::Result<> check_reported_version(std::string_view version);

// One line: version.Info{Major:"1", ...}
std::string version_info(std::string_view version);

}  // namespace config
