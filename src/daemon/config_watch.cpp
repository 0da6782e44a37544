#include "daemon/config_watch.h"

#include <errno.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/inotify.h"

namespace proxyd {

base::Result<ConfigWatch> ConfigWatch::open(const std::string& path) {
  base::Fd fd = TRY(base::open_inotify());
  if (::inotify_add_watch(fd.get(), path.c_str(), IN_MODIFY | IN_MOVE_SELF) < 0) {
    return std::unexpected(base::watch_error("watch " + path, errno));
  }
  return ConfigWatch(std::move(fd));
}

base::Result<bool> ConfigWatch::drain() {
  bool changed = false;
  alignas(inotify_event) std::array<char, 4096> buffer;
  while (true) {
    const ssize_t size = ::read(fd_.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EAGAIN) return changed;
    if (size <= 0) return base::fail_errno("read inotify events");
    for (ssize_t at = 0; at < size;) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof event);
      changed = changed || (event.mask & (IN_MODIFY | IN_MOVE_SELF | IN_Q_OVERFLOW)) != 0;
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
  }
}

}  // namespace proxyd
