// Which proxy stands before a server: as Go's programs choose it. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/url.h"

namespace http {

// A variable of the environment, or nothing.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
// The process's own.
Environment process_environment();

// For an https server HTTPS_PROXY, for an http one HTTP_PROXY, lower case too (upper case first),
// unless NO_PROXY exempts it: "*", names and their sub-domains (".example.com" only those), addresses,
// each with an optional port, and CIDRs. localhost and loopback addresses never use one.
//
// Parity: Go goes without a proxy whose address it cannot read; here that is an error (which never
// holds a password), so that somebody can tell.
base::Result<std::optional<Url>> proxy_from_environment(const Url& server,
                                                        const Environment& environment);

}  // namespace http
