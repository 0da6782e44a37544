// The proxy mode that the configuration asks for, once for each IP family that can be served.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "config/options.h"
#include "daemon/node_facts.h"

namespace proxyd {

// Said at the start of mode ipvs, as kube-proxy does.
inline constexpr const char* kIpvsDeprecated =
    "The ipvs proxier is now deprecated and may be removed in a future release. Please use "
    "'nftables' instead.";

// How many descriptors connections of mode userspace may use if the process may have `limit`: a part is left for
// sockets of Services, programs, the API server.
size_t relay_descriptors(uint64_t limit);

// IPv4 first. Says which families are served, and what in the configuration looks wrong. Sets what the mode
// needs on the node.
base::Result<std::vector<std::unique_ptr<backend::Backend>>> make_backends(
    const config::Options& options, const NodeFacts& node);

}  // namespace proxyd
