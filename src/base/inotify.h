// inotify, with errors that say which of the kernel's limits is reached: by itself it says "too many open files" or
// "no space left on device", and means neither.
#pragma once

#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace base {

// An instance that does not block.
Result<Fd> open_inotify();

// Why inotify_add_watch() has failed with this errno: "WHAT: permission denied".
Error watch_error(std::string_view what, int number);

}  // namespace base
