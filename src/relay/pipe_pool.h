// Pipes: what bytes pass through on their way from socket to socket, without ever being in our memory.
//
// A connection has one only while bytes are queued in it, so that a few serve thousands. Belongs to one worker thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "relay/budget.h"

namespace relay {

struct Pipe {
  base::Fd read;
  base::Fd write;
};

class PipePool {
 public:
  // How much one takes, if the system lets us have that.
  static constexpr size_t kBytes = size_t{256} * 1024;

  explicit PipePool(Budget& budget) : budget_(budget) {}
  ~PipePool();

  // Nothing: no descriptors are left.
  std::optional<Pipe> take();
  // REQUIRES: it is empty.
  void give(Pipe pipe);
  // One that may hold bytes which nobody wants any more.
  void discard(Pipe pipe);

 private:
  static constexpr size_t kIdle = 64;  // that are kept

  Budget& budget_;
  std::vector<Pipe> idle_;
};

}  // namespace relay
