#include "relay/pipe_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace relay {

PipePool::~PipePool() { budget_.give(2 * idle_.size()); }

std::optional<Pipe> PipePool::take() {
  if (!idle_.empty()) {
    Pipe pipe = std::move(idle_.back());
    idle_.pop_back();
    return pipe;
  }
  if (!budget_.take(2)) return std::nullopt;
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
    budget_.give(2);
    return std::nullopt;
  }
  // More than the system's 64 KiB: bulk goes faster that way. There is a limit for all that a user has, above which
  // those have to do.
  ::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(kBytes));
  return Pipe{base::Fd(ends[0]), base::Fd(ends[1])};
}

void PipePool::give(Pipe pipe) {
  if (idle_.size() >= kIdle) return discard(std::move(pipe));
  idle_.push_back(std::move(pipe));
}

void PipePool::discard(Pipe pipe) {
  pipe = {};
  budget_.give(2);
}

}  // namespace relay
