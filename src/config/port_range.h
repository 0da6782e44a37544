// The ports that sockets of mode userspace may have (portRange, --proxy-port-range).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace config {

struct PortRange {
  uint16_t first = 0;  // 0: any port that is free
  uint16_t last = 0;   // inclusive
};

// "", "0" or "0-0" (any), "N", "A-B" (inclusive), "A+N" (A and the N ports behind it).
base::Result<PortRange> parse_port_range(std::string_view text);

}  // namespace config
