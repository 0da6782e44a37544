// Watches the configuration file: a daemon whose configuration was written anew ends, and its
// supervisor starts it with the new one.
//
// As kube-proxy has it: a write to the file, or the file being renamed away, counts; its removal,
// attributes and a file renamed over it do not. Lives on the loop thread.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace proxyd {

class ConfigWatch {
 public:
  static base::Result<ConfigWatch> open(const std::string& path);

  int fd() const { return fd_.get(); }
  // Takes all events off the queue; true if the file was written or renamed away.
  base::Result<bool> drain();

 private:
  explicit ConfigWatch(base::Fd fd) : fd_(std::move(fd)) {}
  base::Fd fd_;
};

}  // namespace proxyd
