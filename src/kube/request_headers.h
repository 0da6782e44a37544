// The headers of a request that say who we are, or whom we stand for. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/kubeconfig.h"

namespace kube {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Impersonate-User and so on; none if nobody is impersonated.
Headers impersonation_headers(const config::Impersonation& impersonation);

// A line break in a token would begin another header: refused, as Go does, without repeating it.
base::Result<> check_values(const Headers& headers);

}  // namespace kube
