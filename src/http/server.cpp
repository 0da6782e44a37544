#include "http/server.h"

#include <list>
#include <tuple>
#include <unordered_set>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "event/async.h"
#include "http/server_socket.h"

namespace http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using event::Async;
using std::chrono::milliseconds;

// After an error of accept(), most likely because there are no descriptors left.
constexpr milliseconds kAfterAcceptError{100};

// A client that still sends when we close would be told of a reset, and lose our answer over it:
// listen on for a moment.
constexpr milliseconds kLinger{500};
constexpr size_t kLingerBytes = size_t{256} * 1024;

constexpr size_t kReadBytes = 4096;

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

using Parser = beast::http::request_parser<beast::http::string_body>;

// The status to answer an error of reading with; 0: nobody listens any more, or there is nothing
// to say.
int refusal_status(const error_code& error) {
  using Http = beast::http::error;
  if (error == Http::header_limit || error == Http::buffer_overflow) return 431;
  if (error == Http::body_limit) return 413;
  if (error == Http::end_of_stream || error == Http::partial_message) return 0;
  const bool about_http = error.category() == make_error_code(Http::bad_method).category();
  return about_http ? 400 : 0;
}

}  // namespace

class Server::Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(const asio::any_io_executor& executor, Handler handler, const ServerLimits& limits)
      : acceptor_(executor), room_(executor), handler_(std::move(handler)), limits_(limits) {}

  base::Result<> start(ListeningSocket socket) {
    error_code error;
    const auto protocol = socket.family == net::Family::V6 ? tcp::v6() : tcp::v4();
    if (acceptor_.assign(protocol, socket.fd.get(), error))
      return base::fail(base::ErrorCode::System, error.message());
    socket.fd.release();
    asio::co_spawn(acceptor_.get_executor(), accept(),
                   [self = shared_from_this()](const std::exception_ptr&) {});
    return {};
  }

  void stop();

  uint16_t port() const {
    error_code error;
    return acceptor_.local_endpoint(error).port();
  }

 private:
  using Clock = std::chrono::steady_clock;
  class Connection;
  struct Idle {
    Connection* connection = nullptr;
    Clock::time_point since;
  };

  Async<> accept() {
    while (!stopped_) {
      if (full() && !find_evictable()) {
        co_await room();
        continue;
      }
      tcp::socket peer(acceptor_.get_executor());
      error_code error;
      co_await acceptor_.async_accept(peer, into(error));
      if (stopped_) co_return;
      if (error) {
        co_await event::sleep_for(kAfterAcceptError);
      } else {
        admit(std::move(peer));
      }
    }
  }

  bool full() const { return open_.size() >= limits_.connections; }

  // The connection that a new one may take the place of, or nullptr.
  Connection* find_evictable() const {
    const bool found = !idle_.empty() && Clock::now() - idle_.front().since >= limits_.settle;
    return found ? idle_.front().connection : nullptr;
  }

  // Waits until a connection ends or may be evicted.
  Async<> room() {
    room_.expires_at(idle_.empty() ? Clock::time_point::max()
                                   : idle_.front().since + limits_.settle);
    error_code ignored;
    co_await room_.async_wait(into(ignored));
  }

  // The idle ones may all have become busy while we waited for this one: then there is one more than
  // the limit, until one ends.
  void admit(tcp::socket peer);

  void became_idle(Connection& connection) {
    idle_.push_back({&connection, Clock::now()});
    room_.cancel();
  }
  void became_busy(Connection& connection) {
    std::erase_if(idle_, [&](const Idle& idle) { return idle.connection == &connection; });
  }
  void ended(Connection& connection) {
    became_busy(connection);
    open_.erase(&connection);
    room_.cancel();
  }

  tcp::acceptor acceptor_;
  asio::steady_timer room_;
  Handler handler_;
  ServerLimits limits_;
  std::unordered_set<Connection*> open_;
  std::list<Idle> idle_;  // the one that has been so longest first
  bool stopped_ = false;
};

class Server::Listener::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Listener> listener, tcp::socket socket)
      : listener_(std::move(listener)),
        limits_(listener_->limits_),
        stream_(std::move(socket)),
        buffer_(limits_.header_bytes + limits_.body_bytes) {}

  void start() {
    // What is thrown (there was no memory, say) ends this connection, and no other.
    asio::co_spawn(
        stream_.get_executor(), run(),
        [self = shared_from_this()](const std::exception_ptr&) { self->listener_->ended(*self); });
  }

  // Ends whatever it waits for.
  void close() { stream_.close(); }

 private:
  Async<> run() {
    bool again = true;
    while (again)
      again = co_await exchange();
  }

  // One request and its answer. False: it was the last.
  Async<bool> exchange() {
    const bool begun = co_await request_begins();
    if (!begun) co_return false;
    Parser parser;
    parser.header_limit(static_cast<uint32_t>(limits_.header_bytes));
    parser.body_limit(limits_.body_bytes);
    const error_code error = co_await read(parser);
    const auto& request = parser.get();
    const auto target = error ? std::nullopt : parse_target(request.target());
    int refused = error ? refusal_status(error) : 0;
    if (!error && !target) refused = 400;
    std::string_view why;
    if (!error && request.version() == 11 && request.count(beast::http::field::host) == 0) {
      refused = 400;
      why = "missing required Host header";
    }
    if (refused != 0) co_await refuse(refused, why);
    if (error || refused != 0 || listener_->stopped_) co_return false;

    const std::string out = handle(request, *target);
    const bool sent = co_await send(out);
    if (sent && !request.keep_alive()) co_await linger();
    co_return sent&& request.keep_alive();
  }

  // False: the client has gone, or was silent for too long, or had to make room for another.
  Async<bool> request_begins() {
    if (buffer_.size() > 0) co_return true;  // came together with the one before
    listener_->became_idle(*this);
    stream_.expires_after(limits_.idle);
    error_code error;
    const auto space = buffer_.prepare(kReadBytes);
    const size_t read = co_await stream_.async_read_some(space, into(error));
    buffer_.commit(read);
    listener_->became_busy(*this);
    co_return !error;
  }

  Async<error_code> read(Parser& parser) {
    stream_.expires_after(limits_.request);
    error_code error;
    co_await beast::http::async_read_header(stream_, buffer_, parser, into(error));
    if (error) co_return error;
    if (!parser.is_done() && parser.get()[beast::http::field::expect] == "100-continue") {
      static constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(stream_, asio::buffer(kGoOn), into(error));
      if (error) co_return error;
    }
    if (!parser.is_done()) co_await beast::http::async_read(stream_, buffer_, parser, into(error));
    co_return error;
  }

  std::string handle(const Parser::value_type& request, const Target& target) const {
    using beast::http::field;
    const Incoming incoming{.method = request.method_string(),
                            .path = target.path,
                            .query = target.query,
                            .accept = request[field::accept],
                            .accept_encoding = request[field::accept_encoding],
                            .body = request.body()};
    return write_answer(listener_->handler_(incoming),
                        {.http_1_0 = request.version() < 11,
                         .head = request.method() == beast::http::verb::head,
                         .keep_alive = request.keep_alive(),
                         .now = std::chrono::system_clock::now()});
  }

  Async<bool> send(const std::string& text) {
    stream_.expires_after(limits_.answer);
    error_code error;
    co_await asio::async_write(stream_, asio::buffer(text), into(error));
    co_return !error;
  }

  Async<> refuse(int status, std::string_view why) {
    const std::string out = write_refusal(status, why);
    const bool sent = co_await send(out);
    if (sent) co_await linger();
  }

  Async<> linger() {
    error_code error;
    error = stream_.socket().shutdown(tcp::socket::shutdown_send, error);
    stream_.expires_after(kLinger);
    char waste[kReadBytes];
    for (size_t total = 0; !error && total < kLingerBytes;) {
      total += co_await stream_.async_read_some(asio::buffer(waste), into(error));
    }
  }

  std::shared_ptr<Listener> listener_;
  const ServerLimits& limits_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
};

void Server::Listener::stop() {
  stopped_ = true;
  error_code ignored;
  std::ignore = acceptor_.close(ignored);
  room_.cancel();
  for (Connection* connection : open_)
    connection->close();
}

void Server::Listener::admit(tcp::socket peer) {
  if (Connection* evicted = full() ? find_evictable() : nullptr) {
    evicted->close();
    became_busy(*evicted);
  }
  auto connection = std::make_shared<Connection>(shared_from_this(), std::move(peer));
  open_.insert(connection.get());
  connection->start();
}

base::Result<Server> Server::listen(const asio::any_io_executor& executor,
                                    const std::string& address, Handler handler,
                                    const ServerLimits& limits) {
  auto socket = TRY(open_listening_socket(address));
  auto listener = std::make_shared<Listener>(executor, std::move(handler), limits);
  TRY_CONTEXT(listener->start(std::move(socket)), "listen tcp " + address);
  return Server(std::move(listener));
}

Server::Server(std::shared_ptr<Listener> listener) : listener_(std::move(listener)) {}
Server::Server(Server&&) noexcept = default;

Server& Server::operator=(Server&& other) noexcept {
  std::swap(listener_, other.listener_);
  return *this;
}

// Asio throws where a timer cannot be cancelled, which happens on Windows only.
Server::~Server() {  // NOLINT(bugprone-exception-escape)
  if (listener_ != nullptr) listener_->stop();
}

uint16_t Server::port() const { return listener_->port(); }

}  // namespace http
