// Reading the small files of an access: kubeconfigs, tokens, keys, certificates.
#pragma once

#include <string>

#include "base/result.h"

namespace config {

// The whole file, at most 8 MiB. Never waits: from a FIFO without a writer comes an empty text. Errors
// as Go prints them: "open /x: no such file or directory", "read /x: is a directory".
base::Result<std::string> read_small_file(const std::string& path);

// Whether it could be read, now.
base::Result<> check_readable(const std::string& path);

}  // namespace config
