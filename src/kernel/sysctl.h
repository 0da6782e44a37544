// Kernel settings under /proc/sys.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace kernel {

// "net/ipv4/conf/all/route_localnet" -> its number.
base::Result<int64_t> read_sysctl(const std::string& name);
base::Result<> write_sysctl(const std::string& name, int64_t value);

// Small files of /proc and /sys.
base::Result<std::string> read_small_file(const std::string& path);
base::Result<> write_small_file(const std::string& path, const std::string& text);

}  // namespace kernel
