#include "config/kubeconfig_io.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

namespace config {
namespace {

using base::Fd;
using base::Result;

constexpr size_t kMaxBytes = 8 * 1024 * 1024;

Result<Fd> open_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return base::fail_errno("open " + path);
  return fd;
}

}  // namespace

Result<std::string> read_small_file(const std::string& path) {
  const Fd fd = TRY(open_file(path));
  std::string text;
  char buffer[16384];
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got == 0) return text;
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) return base::fail_errno("read " + path);
    if (text.size() > kMaxBytes) {
      return base::fail(base::ErrorCode::Invalid, "read " + path + ": larger than 8 MiB");
    }
  }
}

Result<> check_readable(const std::string& path) {
  TRY(open_file(path));
  return {};
}

}  // namespace config
