// The addresses of this machine's interfaces.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "net/ip.h"

namespace kernel {

struct InterfaceAddress {
  std::string interface;
  net::IpAddr ip;
};

// Of all interfaces, both families, in the kernel's order.
base::Result<std::vector<InterfaceAddress>> interface_addresses();

}  // namespace kernel
