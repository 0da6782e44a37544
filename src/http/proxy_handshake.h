// What is said to a proxy before it passes bytes on.
#pragma once

#include <string>

#include "base/result.h"
#include "event/async.h"
#include "http/stream.h"

namespace http {

// CONNECT for http and https proxies, SOCKS 5 otherwise. A plain http server behind an http proxy needs
// neither: its requests name it in full.
event::Async<base::Result<>> pass_proxy(ByteStream& stream, const Url& proxy, const Url& server);

// Whether requests go to the proxy with the full URL of the server in them.
bool in_absolute_form(const std::optional<Url>& proxy, const Url& server);

// "Basic ..." of the proxy's user and password; empty without.
std::string proxy_authorization(const Url& proxy);

}  // namespace http
