// The two addresses in a kubeconfig, as client-go reads them: those of the server and of its proxy. Only
// as far as it takes to choose and to complain; http/url.h takes them apart.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace config::kubeconfig {

// "10.0.0.1:6443" -> "http://10.0.0.1:6443"; a text with a scheme loses its query and fragment only.
// A path needs a scheme in front.
base::Result<std::string> complete_server(std::string_view text);

// What is wrong with a proxy-url: "unsupported scheme \"ftp\", must be http, https, or socks5".
base::Result<> check_proxy_url(std::string_view text);

// The text for an error: whatever stands before an @ may be a password.
// before: http://me:sekret@proxy    after: http://xxxxx@proxy
std::string redacted(std::string_view text);

}  // namespace config::kubeconfig
