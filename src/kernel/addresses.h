// The addresses of this machine's interfaces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/ip.h"

namespace kernel {

struct InterfaceAddress {
  std::string interface;
  net::IpAddr ip;
  uint32_t flags = 0;  // of the interface: IFF_UP and the like
};

// Of all interfaces, both families, in the kernel's order.
base::Result<std::vector<InterfaceAddress>> interface_addresses();

}  // namespace kernel
