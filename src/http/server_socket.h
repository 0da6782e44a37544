// The socket that a server listens on.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "net/ip.h"

namespace http {

struct ListeningSocket {
  base::Fd fd;
  net::Family family = net::Family::V4;  // V6 may take both
};

// As Server::listen says.
base::Result<ListeningSocket> open_listening_socket(const std::string& address);

}  // namespace http
