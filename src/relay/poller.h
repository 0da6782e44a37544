// epoll, with an object behind each descriptor. Belongs to one worker thread.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>

#include "base/fd.h"
#include "base/result.h"
#include "relay/target.h"

namespace relay {

// Told what its descriptor is ready for, as long as it stays so (level-triggered).
class Handler {
 public:
  virtual void ready(uint32_t events) = 0;

 protected:
  ~Handler() = default;
};

class Poller {
 public:
  static base::Result<Poller> open();

  base::Result<> add(int fd, uint32_t events, Handler& handler);
  // REQUIRES: it was added.
  void modify(int fd, uint32_t events, Handler& handler);
  // From here on the handler is not called, not even for what has been found ready already: it may be destroyed.
  void remove(int fd, const Handler& handler);

  // Waits for something to be ready, until `deadline` at the latest, and tells the handlers.
  void poll(Time deadline);

 private:
  explicit Poller(base::Fd epoll) : epoll_(std::move(epoll)) {}

  static constexpr size_t kBatch = 256;
  base::Fd epoll_;
  std::array<epoll_event, kBatch> events_{};
  size_t count_ = 0;  // of events_
  size_t next_ = 0;   // of those, the first that has not been told
};

}  // namespace relay
