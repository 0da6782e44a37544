#include "base/inotify.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

namespace base {
namespace {

// One limit in its two places: for all users of the machine, and for those of our user namespace.
struct Limit {
  const char* of_machine;
  const char* of_namespace;
};
constexpr Limit kInstances{"fs/inotify/max_user_instances", "user/max_inotify_instances"};
constexpr Limit kWatches{"fs/inotify/max_user_watches", "user/max_inotify_watches"};

int64_t setting(const std::string& name) {
  int64_t value = std::numeric_limits<int64_t>::max();
  std::ifstream("/proc/sys/" + name) >> value;
  return value;
}

// "fs.inotify.max_user_instances is 128": the smaller one of the two.
std::string text_of(const Limit& limit) {
  const bool by_namespace = setting(limit.of_namespace) < setting(limit.of_machine);
  std::string name = by_namespace ? limit.of_namespace : limit.of_machine;
  const std::string value = std::to_string(setting(name));
  for (char& c : name)
    c = c == '/' ? '.' : c;
  return name + " is " + value;
}

// Also what the kernel calls "too many open files".
bool has_descriptors_left() { return static_cast<bool>(Fd(::open("/", O_PATH | O_CLOEXEC))); }

}  // namespace

Result<Fd> open_inotify() {
  Fd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (fd) return fd;
  const int number = errno;
  Error error = errno_error("inotify_init1", number);
  if (number == EMFILE && has_descriptors_left())
    error.text += ": no inotify instance is left for this user, " + text_of(kInstances);
  return std::unexpected(std::move(error));
}

Error watch_error(std::string_view what, int number) {
  Error error = errno_error(what, number);
  if (number == ENOSPC)
    error.text += ": no inotify watch is left for this user, " + text_of(kWatches);
  return error;
}

}  // namespace base
