// The headers of a request that say who we are, or whom we stand for. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/kubeconfig.h"

namespace kube {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Standard base64 with padding, on one line.
std::string encode_base64(std::string_view bytes);

// Impersonate-User and so on; none if nobody is impersonated.
Headers impersonation_headers(const config::Impersonation& impersonation);

// "Basic ..."
std::string basic_authorization(const std::string& user, const std::string& password);

// A line break in a token would begin another header: refused, as Go does, without repeating it.
base::Result<> check_values(const Headers& headers);

}  // namespace kube
