#include "daemon/loop.h"

#include <fcntl.h>

namespace proxyd {

using base::ErrorCode;
using base::Result;

void Loop::end(std::string why) {
  if (!std::exchange(ended_, true)) ending_ = std::move(why);
  io_.stop();
}

Result<> Loop::run() {
  if (!ended_) io_.run();
  return base::fail(ErrorCode::System, ending_);
}

Result<bool> Loop::run_until(const std::function<bool()>& done, Clock::time_point deadline) {
  while (!done()) {
    if (ended_) return base::fail(ErrorCode::System, ending_);
    if (Clock::now() >= deadline) return false;
    io_.run_one_until(deadline);
  }
  return true;
}

Result<> Readable::watch(int fd) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return base::fail_errno("duplicate a descriptor");
  events_.assign(copy);
  wait();
  return {};
}

void Readable::wait() {
  events_.async_wait(boost::asio::posix::stream_descriptor::wait_read, [this](const auto& error) {
    if (error) return;
    ready_();
    wait();
  });
}

}  // namespace proxyd
