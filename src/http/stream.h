// A connection that carries bytes: plain, inside TLS, or inside the TLS of a proxy and then its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>

#include "base/result.h"
#include "event/async.h"
#include "http/tls.h"
#include "http/url.h"

namespace http {

// Lives on the loop thread. One read and one write at a time.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // At least one byte; 0 = the peer has ended the connection as it should. A connection that broke is
  // Lost; one whose peer no longer answers is Timeout.
  virtual event::Async<base::Result<size_t>> read_some(std::span<char> buffer) = 0;
  virtual event::Async<base::Result<>> write(std::string_view bytes) = 0;

  // Ends the connection; what waits for it fails.
  virtual void close() = 0;
};

struct Target {
  Url server;
  std::optional<Url> proxy{};
  std::string tls_server_name{};  // what the certificate must be for; the server's host if empty
  TlsContext tls{};               // of an https server
  // Called after each lookup of a name, with the time that it took.
  std::function<void(const std::string& host, std::chrono::nanoseconds)> resolved{};
};

// Connects, through the proxy if there is one, and secures the connection. Nobody listening is Refused.
//
// A peer whose machine vanishes without a word is noticed within 30 s: our kernel asks its kernel for a
// sign of life. One whose process hangs is not.
event::Async<base::Result<std::unique_ptr<ByteStream>>> dial(const Target& target);

}  // namespace http
