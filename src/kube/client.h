// Requests to the API server.
//
// One connection per request in flight, kept for the next one where the server agrees; HTTP/1.1, so
// that a watch has a connection of its own. Requests other than watches share a token bucket (qps,
// burst), are tried again on 429 and 5xx with Retry-After, and follow what Credentials says.
//
// Lives on the loop thread, and outlives its requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>

#include "base/result.h"
#include "event/async.h"
#include "http/proxy.h"
#include "http/url.h"
#include "kube/credentials.h"
#include "kube/observer.h"

namespace kube {

struct ClientOptions {
  http::Url server;
  std::optional<http::Url> proxy;
  std::string tls_server_name;  // empty: the host of the URL
  std::string user_agent;
  std::string accept;        // for answers
  std::string content_type;  // of bodies
  double qps = 5;            // below 0: no limit
  int burst = 10;
};

struct Request {
  std::string method = "GET";
  std::string path;          // "/api/v1/services"
  std::string query;         // "watch=true&...", escaped
  std::string content_type;  // of the body; the client's own if empty
  std::string body;
};

struct Response {
  int status = 0;
  std::string content_type;
  std::string body;
};

// An answer whose body goes on arriving: a watch. Ends its connection when it is destroyed.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual int status() const = 0;
  virtual const std::string& content_type() const = 0;
  // The next bytes of the body, valid until the next call; empty: the body has ended as it should.
  virtual event::Async<base::Result<std::string_view>> read() = 0;
};

class Client {
 public:
  static constexpr size_t kMaxBodyBytes = size_t{512} << 20;

  virtual ~Client() = default;

  // Answers of any status are a Response; an error is one of the connection, or an answer that is too
  // large (kMaxBodyBytes) or no HTTP.
  virtual event::Async<base::Result<Response>> request(const Request& request) = 0;

  // Opens a watch. `patience` is how long the server was told that it may last. If it is silent for that
  // long, or for more than two bookmarks would take, read() gives Timeout. Answers with another status than 200 are
  // streams too: read their (small) body for the Status.
  virtual event::Async<base::Result<std::unique_ptr<Stream>>> stream(
      const Request& request, std::chrono::seconds patience) = 0;
};

// The observer, if there is one, outlives the client.
std::unique_ptr<Client> make_client(boost::asio::any_io_executor executor, ClientOptions options,
                                    std::unique_ptr<Credentials> credentials, Tell tell,
                                    Observer* observer = nullptr);

}  // namespace kube
