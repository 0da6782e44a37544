#include "source/watch.h"

#include <sys/inotify.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/inotify.h"

namespace source {

namespace {

constexpr uint32_t kMask = IN_CLOSE_WRITE | IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                           IN_CREATE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

std::string joined(const std::string& folder, std::string_view name) {
  return folder + (folder.ends_with('/') ? "" : "/") + std::string(name);
}

std::optional<std::string> link_target(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size <= 0) return std::nullopt;
  return std::string(target.data(), static_cast<size_t>(size));
}

bool exists(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

std::string absolute(const std::string& path) {
  std::array<char, PATH_MAX> here{};
  if (path.starts_with('/') || ::getcwd(here.data(), here.size()) == nullptr) return path;
  return joined(here.data(), path);
}

struct Place {
  std::string folder;
  std::string name;
};

// Where a change can lead the path elsewhere: each symbolic link on the way, and its last part.
// Ends at the first part that does not exist, as that is what has to appear first.
std::vector<Place> trail(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as the kernel
  std::vector<Place> places;
  std::string folder = "/";
  std::string rest = absolute(path);
  for (int links = 0; links < kMaxLinks;) {
    const size_t start = rest.find_first_not_of('/');
    if (start == std::string::npos) break;
    const size_t end = rest.find('/', start);
    const std::string name = rest.substr(start, end - start);
    rest = end == std::string::npos ? "" : rest.substr(end);
    if (name == ".") continue;
    std::string full = joined(folder, name);
    const bool last = rest.find_first_not_of('/') == std::string::npos;
    const auto target = link_target(full);
    if (target || last || !exists(full)) places.push_back({folder, name});
    if (!target) {
      if (!exists(full)) break;
      folder = std::move(full);
      continue;
    }
    ++links;
    if (target->starts_with('/')) folder = "/";
    rest.insert(0, *target);
  }
  return places;
}

// A hard link appears complete; a new file is told again when it is closed.
bool appears_complete(const std::string& file) {
  struct stat info{};
  if (::lstat(file.c_str(), &info) != 0) return false;
  return !S_ISREG(info.st_mode) || info.st_nlink > 1;
}

}  // namespace

base::Result<Watch> Watch::open(std::string path) {
  Watch watch(TRY(base::open_inotify()), std::move(path));
  watch.follow();
  return watch;
}

bool Watch::drain() {
  alignas(inotify_event) std::array<char, 16384> buffer;
  bool relevant = false;
  while (true) {
    const ssize_t size = ::read(fd_.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    for (ssize_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      const std::string name = event->len == 0 ? "" : event->name;
      relevant = handle(event->wd, event->mask, name) || relevant;
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  if (relevant) {
    follow();
    forget_lost_writers();
  }
  return relevant;
}

std::set<FileId> Watch::being_written() const {
  std::set<FileId> ids;
  for (const auto& [path, id] : writing_)
    ids.insert(id);
  return ids;
}

bool Watch::handle(int descriptor, uint32_t mask, const std::string& name) {
  if ((mask & IN_Q_OVERFLOW) != 0) {
    writing_.clear();
    return true;
  }
  const auto found = folders_.find(descriptor);
  if (found == folders_.end()) return false;
  if ((mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) != 0) return true;
  if (name.empty()) return false;
  const Folder& folder = found->second;
  // "..data" and its like carry the files of a mounted ConfigMap.
  const bool counts = folder.names.contains(name) ||
                      (folder.manifests && (is_manifest_name(name) || name.starts_with("..")));
  return counts && handle_file(mask, joined(folder.path, name));
}

bool Watch::handle_file(uint32_t mask, const std::string& file) {
  if ((mask & IN_MODIFY) != 0) {
    const Stamp stamp = stamp_of(file);
    if (stamp.error == 0) writing_[file] = stamp.id;
    return false;
  }
  if ((mask & IN_CREATE) != 0) return (mask & IN_ISDIR) != 0 || appears_complete(file);
  writing_.erase(file);
  return true;
}

void Watch::follow() {
  std::map<int, Folder> folders;
  trouble_.clear();
  add_trail(folders, path_);
  add_links(folders);
  for (const auto& [descriptor, folder] : folders_) {
    if (!folders.contains(descriptor)) ::inotify_rm_watch(fd_.get(), descriptor);
  }
  folders_ = std::move(folders);
}

// The file under that path is another one now, or its folder is not watched any more: nobody will
// say when it is closed.
void Watch::forget_lost_writers() {
  std::erase_if(writing_, [&](const auto& entry) {
    const auto& [path, id] = entry;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const bool watched = std::ranges::any_of(
        folders_, [&](const auto& item) { return joined(item.second.path, "") == folder; });
    return !watched || stamp_of(path).id != id;
  });
}

Watch::Folder* Watch::add(std::map<int, Folder>& folders, const std::string& folder) {
  const int descriptor = ::inotify_add_watch(fd_.get(), folder.c_str(), kMask);
  if (descriptor < 0) {
    // A folder that is not there is no trouble: the one above it is watched.
    if (errno != ENOENT && errno != ENOTDIR) {
      trouble_ = base::watch_error("cannot watch " + folder, errno).text;
    }
    return nullptr;
  }
  Folder& entry = folders[descriptor];
  if (entry.path.empty()) entry.path = folder;
  return &entry;
}

void Watch::add_trail(std::map<int, Folder>& folders, const std::string& path) {
  for (const Place& place : trail(path)) {
    if (Folder* folder = add(folders, place.folder)) folder->names.insert(place.name);
  }
}

// The folder itself, if the path is one, and the trails of the links in it.
void Watch::add_links(std::map<int, Folder>& folders) {
  Folder* own = add(folders, path_);
  if (own == nullptr) return;
  own->manifests = true;
  std::error_code error;
  std::filesystem::directory_iterator entry(path_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    const auto& path = entry->path();
    if (is_manifest_name(path.filename().native()) && entry->is_symlink(unknown)) {
      add_trail(folders, path.native());
    }
  }
}

}  // namespace source
