// The loop thread: waits for whatever comes first, and knows why it ended.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/result.h"

namespace proxyd {

class Loop {
 public:
  using Clock = std::chrono::steady_clock;

  boost::asio::io_context& io() { return io_; }

  // Ends the daemon; the first reason counts.
  void end(std::string why);

  // Runs until somebody calls end(): always an error, with the reason.
  base::Result<> run();

  // Runs until `done`, or until the deadline: whether it is done. The end of the daemon is an error.
  base::Result<bool> run_until(const std::function<bool()>& done, Clock::time_point deadline);

 private:
  boost::asio::io_context io_{1};
  bool ended_ = false;
  std::string ending_;
};

// Calls `ready` whenever there is something to read. Takes a copy of the descriptor, as Asio closes
// what it is given.
class Readable {
 public:
  Readable(Loop& loop, std::function<void()> ready)
      : events_(loop.io()), ready_(std::move(ready)) {}

  base::Result<> watch(int fd);

 private:
  void wait();

  boost::asio::posix::stream_descriptor events_;
  std::function<void()> ready_;
};

}  // namespace proxyd
