#include "kernel/sysctl.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "base/fd.h"
#include "base/text.h"

namespace kernel {

using base::Result;

Result<std::string> read_small_file(const std::string& path) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return base::fail_errno(path);
  std::array<char, 4096> buffer;
  const ssize_t size = ::read(fd.get(), buffer.data(), buffer.size());
  if (size < 0) return base::fail_errno(path);
  return std::string(buffer.data(), static_cast<size_t>(size));
}

Result<> write_small_file(const std::string& path, const std::string& text) {
  const base::Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return base::fail_errno(path);
  if (::write(fd.get(), text.data(), text.size()) < 0) return base::fail_errno(path);
  return {};
}

Result<int64_t> read_sysctl(const std::string& name, const std::string& root) {
  const std::string text = TRY(read_small_file(root + "/proc/sys/" + name));
  const auto value = base::parse_number<int64_t>(base::trim(text));
  if (!value)
    return base::fail(base::ErrorCode::Invalid, name + ": not a number: " + base::quote(text));
  return *value;
}

Result<> write_sysctl(const std::string& name, int64_t value, const std::string& root) {
  return write_small_file(root + "/proc/sys/" + name, std::to_string(value));
}

}  // namespace kernel
