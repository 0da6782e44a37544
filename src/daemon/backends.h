// The proxy mode that the configuration asks for, once for each IP family that can be served.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "config/config.h"
#include "daemon/node_facts.h"

namespace proxyd {

// Said at the start of mode ipvs, as kube-proxy does.
inline constexpr const char* kIpvsDeprecated =
    "The ipvs proxier is now deprecated and may be removed in a future release. Please use "
    "'nftables' instead.";

// IPv4 first. Says which families are served, and what in the configuration looks wrong. Sets what the mode
// needs on the node.
base::Result<std::vector<std::unique_ptr<backend::Backend>>> make_backends(
    const config::Config& config, const NodeFacts& node);

}  // namespace proxyd
