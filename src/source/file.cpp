#include "source/file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/fd.h"

namespace source {

namespace {

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

Stamp make_stamp(const struct stat& info) {
  return {.id = {info.st_dev, info.st_ino},
          .size = info.st_size,
          .modified_ns = nanoseconds(info.st_mtim),
          .changed_ns = nanoseconds(info.st_ctim),
          .error = 0};
}

// File systems stamp with the coarse clock: two writes in one tick look the same.
bool within_a_tick(const Stamp& stamp) {
  constexpr int64_t kTicks = 20'000'000;
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return nanoseconds(now) - stamp.modified_ns < kTicks;
}

base::Result<> read_all(int fd, const std::string& path, int64_t max_bytes, FileText& out) {
  constexpr size_t kChunk = 1 << 20;
  out.text.reserve(static_cast<size_t>(out.stamp.size) + 1);
  while (true) {
    const size_t before = out.text.size();
    const size_t room = std::max<size_t>(out.text.capacity() - before, 4096);
    out.text.resize(before + std::min(room, kChunk));
    const ssize_t got = ::read(fd, out.text.data() + before, out.text.size() - before);
    out.text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::fail_errno("read " + path);
    if (got == 0) return {};
    if (std::cmp_greater(out.text.size(), max_bytes)) {
      return base::fail(base::ErrorCode::Invalid, "grew too large while it was read");
    }
  }
}

}  // namespace

bool is_link(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

Stamp stamp_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) return make_stamp(info);
  Stamp stamp;
  stamp.error = errno;
  return stamp;
}

base::Result<FileText> read_file(const std::string& path, int64_t max_bytes) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) return base::fail_errno("cannot be read");
  if (!S_ISREG(info.st_mode)) return base::fail(base::ErrorCode::Invalid, "is not a regular file");
  if (info.st_size > max_bytes) {
    return base::fail(base::ErrorCode::Invalid,
                      "is larger than " + std::to_string(max_bytes >> 20) + " MiB");
  }
  FileText out;
  out.stamp = make_stamp(info);
  TRY(read_all(fd.get(), path, max_bytes, out));
  out.torn = ::fstat(fd.get(), &info) != 0 || make_stamp(info) != out.stamp;
  out.fresh = within_a_tick(out.stamp);
  return out;
}

bool is_manifest_name(std::string_view name) {
  return !name.starts_with('.') &&
         (name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json"));
}

base::Result<std::vector<std::string>> list_manifests(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto type = fs::status(path, error).type();
  const auto failed = [&] { return base::errno_error("cannot be read", error.value()); };
  if (error) return std::unexpected(failed());
  if (type != fs::file_type::directory) return std::vector<std::string>{path};

  std::vector<std::string> files;
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    // The folder itself says what its entries are, on most file systems without a look at them.
    std::error_code unknown;  // then it is not a folder either
    if (is_manifest_name(entry->path().filename().native()) &&
        (entry->is_symlink(unknown) || !entry->is_directory(unknown))) {
      files.push_back(entry->path().native());
    }
  }
  if (error) return std::unexpected(failed());
  std::ranges::sort(files);
  return files;
}

}  // namespace source
