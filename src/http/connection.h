// One HTTP/1.1 connection of a client: a request, then an answer whose body is read as it comes.
//
// Whatever the server sends, memory stays bounded: headers have a limit, and of a body only what has
// just arrived is held. Lives on the loop thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "event/async.h"
#include "http/stream.h"
#include "http/watchdog.h"

namespace http {

struct Head {
  int status = 0;
  std::string content_type;
  std::string retry_after;            // as sent
  std::vector<std::string> warnings;  // Warning headers, at most a few
};

class Connection {
 public:
  static constexpr size_t kBufferBytes = size_t{64} << 10;
  static constexpr uint32_t kMaxHeaderBytes = 64 << 10;

  Connection(const boost::asio::any_io_executor& executor, std::unique_ptr<ByteStream> stream);
  ~Connection();

  // Sends the request, complete with its head, and waits for the head of the answer, at most `patience`.
  // REQUIRES: the answer before was read to its end.
  event::Async<base::Result<Head>> exchange(std::string_view request,
                                            std::chrono::nanoseconds patience);

  // The next bytes of the body, valid until the next call; empty: it has ended. Silence for longer than
  // `patience` is Timeout; an end in the middle is Lost.
  event::Async<base::Result<std::string_view>> read(std::chrono::nanoseconds patience);

  // Whether another request may follow.
  bool reusable() const;
  // Whether anything of the answer has arrived: before that, a lost connection was perhaps just an idle
  // one that the server had closed.
  bool answered() const;

  // Ends it; what waits for it fails.
  void close();

 private:
  struct Parser;

  event::Async<base::Result<>> read_more(std::chrono::nanoseconds patience);
  base::Result<> end_of_stream();
  base::Result<> parse();

  std::unique_ptr<ByteStream> stream_;
  Watchdog watchdog_;
  std::unique_ptr<Parser> parser_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is in the buffer and not parsed yet
  size_t end_ = 0;
  bool broken_ = false;  // no further request
};

}  // namespace http
