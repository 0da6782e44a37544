// "IP:port" and "[IP]:port" as Go's net package takes them apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace config {

struct HostPort {
  std::string_view host;
  std::string_view port;
};

// Views into `address`. Errors: address 1.2.3.4: missing port in address.
base::Result<HostPort> split_host_port(std::string_view address);

// A bare IP gets the port, IPv6 with brackets; everything else comes back as it is.
std::string with_default_port(const std::string& address, int32_t port);

}  // namespace config
