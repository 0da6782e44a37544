// The rules a configuration must keep, each with the message of upstream.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace config {

// Every broken rule, in upstream's order: "KubeProxyConfiguration.OOMScoreAdj: Invalid value: ...".
// REQUIRES: defaults were applied.
std::vector<std::string> validate(const Config& config);

// The rules of the logging section, checked before logging starts: "logging.format: ...".
std::vector<std::string> validate_logging(const Config& config);

}  // namespace config
