// Files of manifests on the disk: which there are, whether one changed, and its text.
#pragma once

#include <sys/stat.h>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace source {

// Which file it is, whatever path leads to it.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;

  auto operator<=>(const FileId&) const = default;
};

// What changes when a file is written, replaced, or made readable.
struct Stamp {
  FileId id;
  int64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;  // sees what keeps the modification time: chmod, touch -d
  int error = 0;           // errno, if the file cannot be looked at; then nothing else is set

  bool operator==(const Stamp&) const = default;
};

// Whether it is a symbolic link, be it to nowhere.
bool is_link(const std::string& path);

// Symbolic links are followed.
Stamp stamp_of(const std::string& path);

struct FileText {
  Stamp stamp;
  std::string text;
  // Changed while it was read: the text may be half of one.
  bool torn = false;
  // Written just before it was read: the clock of the file system is too coarse to show the next
  // change. Read it again, whatever the stamp says.
  bool fresh = false;
};

// The whole of a regular file; an error if it is larger. Never blocks on a pipe.
base::Result<FileText> read_file(const std::string& path, int64_t max_bytes);

// "web.yaml", "a.yml", "b.json"; not what begins with a dot.
bool is_manifest_name(std::string_view name);

// The path itself if it is a file; the manifests right in it, by name, if it is a folder.
base::Result<std::vector<std::string>> list_manifests(const std::string& path);

}  // namespace source
