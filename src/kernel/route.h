// Which way packets of this machine go, over netlink.
#pragma once

#include <string>

#include "base/result.h"
#include "net/ip.h"

namespace kernel {

// The name of the device by which `ip` is reached: "lo" if it is an address of this machine. An error if there is no
// route. Blocks, for some microseconds; from any thread.
base::Result<std::string> device_towards(const net::IpAddr& ip);

}  // namespace kernel
