#include "http/server_connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>

namespace http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using event::Async;

// A client that still sends when we close would be told of a reset, and lose our answer over it:
// listen on for a moment.
constexpr std::chrono::milliseconds kLinger{500};
constexpr size_t kLingerBytes = size_t{256} * 1024;

// Enough for the request of a probe; the buffer grows if there is more.
constexpr size_t kReadBytes = 1024;

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

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

// What becomes of a request: it has a target, or it is refused, or there is nobody to tell.
struct Judgement {
  std::optional<RequestTarget> target;
  int refused = 0;
  std::string_view why;
};
// No part of a coroutine: g++ 12 may destroy the temporaries of a conditional expression there although
// they were never made.
template <typename Request>
Judgement judge(const error_code& error, const Request& request) {
  if (error) return {.target = {}, .refused = refusal_status(error), .why = {}};
  if (request.version() == 11 && request.count(beast::http::field::host) == 0)
    return {.target = {}, .refused = 400, .why = "missing required Host header"};
  auto target = parse_target(request.target());
  return {.target = target, .refused = target ? 0 : 400, .why = {}};
}

}  // namespace

void ServerConnection::start(std::shared_ptr<const ServerCore> core, Places::Host& host,
                             tcp::socket socket) {
  const auto self = std::make_shared<ServerConnection>(std::move(core), std::move(socket));
  self->ticket_ = self->core_->places->enter(host, *self);
  // What is thrown (there was no memory, say) ends this connection, and no other.
  asio::co_spawn(self->stream_.get_executor(), self->run(), [self](const std::exception_ptr&) {
    if (self->ticket_) self->core_->places->leave(*self->ticket_);
  });
}

ServerConnection::ServerConnection(std::shared_ptr<const ServerCore> core, tcp::socket socket)
    : core_(std::move(core)),
      limits_(core_->limits),
      stream_(std::move(socket)),
      buffer_(limits_.header_bytes + limits_.body_bytes) {}

// Ends whatever it waits for.
void ServerConnection::make_way() {
  ticket_.reset();
  stream_.close();
}

Async<> ServerConnection::run() {
  bool again = true;
  while (again)
    again = co_await exchange();
}

Async<bool> ServerConnection::exchange() {
  const bool begun = co_await request_begins();
  if (!begun) co_return false;
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(limits_.header_bytes));
  parser.body_limit(limits_.body_bytes);
  const error_code error = co_await read(parser);
  serve_client();
  const Judgement judgement = judge(error, parser.get());
  if (judgement.refused != 0) co_await refuse(judgement.refused, judgement.why);
  if (!judgement.target || core_->stopped) co_return false;

  const bool keep_alive = parser.get().keep_alive();
  const std::string out = handle(parser.get(), *judgement.target);
  const bool sent = co_await send(out);
  if (sent && !keep_alive) co_await linger();
  co_return sent&& keep_alive;
}

Async<bool> ServerConnection::request_begins() {
  if (buffer_.size() > 0) co_return true;  // came together with the one before
  wait_for_client();
  stream_.expires_after(limits_.idle);
  error_code error;
  const auto space = buffer_.prepare(kReadBytes);
  const size_t read = co_await stream_.async_read_some(space, into(error));
  buffer_.commit(read);
  co_return !error;
}

Async<error_code> ServerConnection::read(Parser& parser) {
  wait_for_client();
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

std::string ServerConnection::handle(const Parser::value_type& request,
                                     const RequestTarget& target) const {
  using beast::http::field;
  const Incoming incoming{.method = request.method_string(),
                          .path = target.path,
                          .query = target.query,
                          .accept = request[field::accept],
                          .accept_encoding = request[field::accept_encoding],
                          .body = request.body()};
  return write_answer(core_->handler(incoming),
                      {.http_1_0 = request.version() < 11,
                       .head = request.method() == beast::http::verb::head,
                       .keep_alive = request.keep_alive(),
                       .now = std::chrono::system_clock::now()});
}

Async<bool> ServerConnection::send(const std::string& text) {
  stream_.expires_after(limits_.answer);
  error_code error;
  co_await asio::async_write(stream_, asio::buffer(text), into(error));
  co_return !error;
}

Async<> ServerConnection::refuse(int status, std::string_view why) {
  const std::string out = write_refusal(status, why);
  const bool sent = co_await send(out);
  if (sent) co_await linger();
}

Async<> ServerConnection::linger() {
  error_code error;
  error = stream_.socket().shutdown(tcp::socket::shutdown_send, error);
  stream_.expires_after(kLinger);
  char waste[kReadBytes];
  for (size_t total = 0; !error && total < kLingerBytes;) {
    total += co_await stream_.async_read_some(asio::buffer(waste), into(error));
  }
}

void ServerConnection::wait_for_client() {
  if (ticket_) core_->places->wait_for(*ticket_);
}

void ServerConnection::serve_client() {
  if (ticket_) core_->places->serve(*ticket_);
}

}  // namespace http
