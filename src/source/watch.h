// Tells when manifests may have changed, by inotify.
//
// Only folders are watched, never files: that way a file that an editor renames into place, the
// `..data` link of a mounted ConfigMap, and a folder that is taken away and made again are all
// seen. For the path itself, and for each manifest in it that is a symbolic link, every link on
// the way is watched in the folder where it stands.
//
// A hint, not a promise: network file systems tell nothing, and watches can run out. Rescan now
// and then as well. Lives on the loop thread; never blocks.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "source/file.h"

namespace source {

class Watch {
 public:
  static base::Result<Watch> open(std::string path);

  // Readable when there is something to drain.
  int fd() const { return fd_.get(); }

  // Takes all events off the queue and follows the path anew. Returns whether a manifest was
  // written, moved, linked or removed; not while it is still being written.
  bool drain();

  // Files that were written to and are not closed yet: reading them would give half a text.
  std::set<FileId> being_written() const;

  // Why some folder is not watched, or empty.
  const std::string& trouble() const { return trouble_; }

 private:
  struct Folder {
    std::string path;
    bool manifests = false;       // any manifest in it counts
    std::set<std::string> names;  // and these
  };

  Watch(base::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  void follow();
  Folder* add(std::map<int, Folder>& folders, const std::string& folder);
  void add_trail(std::map<int, Folder>& folders, const std::string& path);
  void add_links(std::map<int, Folder>& folders);
  bool handle(int descriptor, uint32_t mask, const std::string& name);
  bool handle_file(uint32_t mask, const std::string& file);
  void forget_lost_writers();

  base::Fd fd_;
  std::string path_;
  std::map<int, Folder> folders_;          // by watch descriptor
  std::map<std::string, FileId> writing_;  // by path
  std::string trouble_;
};

}  // namespace source
