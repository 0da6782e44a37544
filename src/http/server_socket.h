// The socket that a server listens on, and those of its clients.
#pragma once

#include <cstddef>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "net/ip.h"

namespace http {

struct ListeningSocket {
  base::Fd fd;
  net::Family family = net::Family::V4;  // V6 may take both
};

// As Server::listen, ServerOptions and ServerLimits say.
struct ListenOptions {
  bool one_family = false;
  size_t spare_descriptors = 0;
};
base::Result<ListeningSocket> open_listening_socket(const std::string& address,
                                                    const ListenOptions& options = {});

// The next client in the backlog of a listening socket. An empty Fd: it has gone meanwhile.
base::Result<base::Fd> accept_client(int listening, size_t spare_descriptors);

}  // namespace http
