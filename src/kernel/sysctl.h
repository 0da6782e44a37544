// Kernel settings under /proc/sys.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace kernel {

// "net/ipv4/conf/all/route_localnet" -> its number. `root` stands before /proc, for tests.
base::Result<int64_t> read_sysctl(const std::string& name, const std::string& root = "");
base::Result<> write_sysctl(const std::string& name, int64_t value, const std::string& root = "");

// Small files of /proc and /sys.
base::Result<std::string> read_small_file(const std::string& path);
base::Result<> write_small_file(const std::string& path, const std::string& text);

}  // namespace kernel
