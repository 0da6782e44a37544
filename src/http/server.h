// A small HTTP/1.1 server for the pages of the daemon: metrics and health.
//
// Meant for clients that ask for short answers; made so that many, slow or hostile ones cost a
// bounded amount of memory, descriptors and time. Whoever connects while no place is free takes the
// place of the client that we have waited for longest; if there is none, it waits in the kernel's
// backlog. Thousands of servers may share their places: each costs a socket and a few hundred bytes,
// and nothing while nobody connects.
//
// Lives on the loop thread, and so does its handler. The handler is not called once the Server is
// destroyed, which closes the socket and every connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "http/server_message.h"

namespace boost::asio {
class any_io_executor;
}

namespace http {

class Places;

struct ServerLimits {
  size_t connections = 256;
  // A client is not sent away for another before: its request may be on the way.
  std::chrono::milliseconds settle{50};
  // Go's default is 1 MiB; our pages need no more than a line, and proxies add a token or two.
  size_t header_bytes = size_t{32} * 1024;
  size_t body_bytes = size_t{16} * 1024;
  std::chrono::milliseconds idle = std::chrono::minutes(3);      // until a request begins
  std::chrono::milliseconds request = std::chrono::seconds(10);  // from its first byte to its last
  std::chrono::milliseconds answer = std::chrono::seconds(30);   // until the client has taken it
  // Descriptors that this server leaves to the rest of the process, whatever happens to it.
  size_t spare_descriptors = 0;
};

struct ServerOptions {
  ServerLimits limits{};
  // Shared with other servers, whose connections count together, besides each server's own limit.
  // None: it has places of its own.
  std::shared_ptr<Places> places{};
  // An unspecified address (0.0.0.0 or ::) stands for all addresses of its family. Else it is one
  // socket for both families, or for IPv4 only if the kernel has no IPv6.
  bool one_family = false;
};

// Places for `connections` in all; the rest as ServerLimits says.
std::shared_ptr<Places> make_places(const boost::asio::any_io_executor& executor,
                                    size_t connections,
                                    std::chrono::milliseconds settle = ServerLimits{}.settle);

class Server {
 public:
  using Handler = std::function<Answer(const Incoming&)>;

  // Listens on "IP:port" or "[IP]:port"; port 0 takes a free one. Errors as Go words them:
  // listen tcp 127.0.0.1:10249: bind: address already in use.
  static base::Result<Server> listen(const boost::asio::any_io_executor& executor,
                                     const std::string& address, Handler handler,
                                     const ServerOptions& options = {});

  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();

  uint16_t port() const;

 private:
  class Listener;
  explicit Server(std::shared_ptr<Listener> listener);

  std::shared_ptr<Listener> listener_;
};

}  // namespace http
