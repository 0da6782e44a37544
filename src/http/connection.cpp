#include "http/connection.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>

namespace http {

namespace beast = boost::beast;
using base::ErrorCode;
using base::Result;
using event::Async;

namespace {
constexpr int kMaxInterim = 10;
}  // namespace

// Keeps the few headers that we look at, and of the body what has just arrived.
struct Connection::Parser final : beast::http::basic_parser<false> {
  using error_code = beast::error_code;
  using field = beast::http::field;
  static constexpr size_t kMaxWarnings = 8;

  Head head;
  std::string body;
  bool handed_out = false;  // the body so far

  Parser() {
    eager(true);
    header_limit(kMaxHeaderBytes);
    body_limit(boost::none);
  }

 private:
  void on_request_impl(beast::http::verb, beast::string_view, beast::string_view, int,
                       error_code&) override {}
  void on_response_impl(int code, beast::string_view, int, error_code&) override {
    head.status = code;
  }
  void on_field_impl(field name, beast::string_view, beast::string_view value,
                     error_code&) override {
    if (name == field::content_type) head.content_type = std::string(value);
    if (name == field::retry_after) head.retry_after = std::string(value);
    if (name == field::warning && head.warnings.size() < kMaxWarnings)
      head.warnings.emplace_back(value);
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  size_t on_body_impl(beast::string_view bytes, error_code&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(uint64_t, beast::string_view, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, beast::string_view bytes, error_code&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_finish_impl(error_code&) override {}
};

Connection::Connection(const boost::asio::any_io_executor& executor,
                       std::unique_ptr<ByteStream> stream)
    : stream_(std::move(stream)),
      watchdog_(executor, [this] { stream_->close(); }),
      parser_(std::make_unique<Parser>()),
      buffer_(kBufferBytes, '\0') {}

Connection::~Connection() = default;

Async<Result<Head>> Connection::exchange(std::string_view request,
                                         std::chrono::nanoseconds patience) {
  parser_ = std::make_unique<Parser>();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  watchdog_.arm(patience);
  const auto sent = co_await stream_->write(request);
  const bool late = watchdog_.barked();
  watchdog_.disarm();
  if (!sent) {
    broken_ = true;
    if (late) co_return base::fail(ErrorCode::Timeout, "the server does not take our request");
    co_return std::unexpected(sent.error());
  }
  // What comes before the answer proper (100 Continue, 103 Early Hints) is of no use to us.
  for (int before = 0; before < kMaxInterim; ++before) {
    while (!parser_->is_header_done()) {
      const auto more = co_await read_more(deadline - std::chrono::steady_clock::now());
      if (!more) co_return std::unexpected(more.error());
    }
    if (parser_->head.status / 100 != 1) co_return parser_->head;
    parser_ = std::make_unique<Parser>();
    if (auto parsed = parse(); !parsed) co_return std::unexpected(parsed.error());
  }
  broken_ = true;
  co_return base::fail(ErrorCode::Invalid, "the server announces an answer that never comes");
}

Async<Result<std::string_view>> Connection::read(std::chrono::nanoseconds patience) {
  if (parser_->handed_out) {
    parser_->body.clear();
    parser_->handed_out = false;
  }
  while (parser_->body.empty() && !parser_->is_done()) {
    const auto more = co_await read_more(patience);
    if (!more) co_return std::unexpected(more.error());
  }
  parser_->handed_out = true;
  co_return std::string_view(parser_->body);
}

Async<Result<>> Connection::read_more(std::chrono::nanoseconds patience) {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) {
    broken_ = true;
    co_return base::fail(ErrorCode::Invalid, "the server's answer has a header that does not end");
  }
  watchdog_.arm(patience);
  const std::span<char> space(buffer_.data() + end_, buffer_.size() - end_);
  const auto size = co_await stream_->read_some(space);
  const bool late = watchdog_.barked();
  watchdog_.disarm();
  if (!size) {
    broken_ = true;
    if (late) co_return base::fail(ErrorCode::Timeout, "the server has been silent for too long");
    co_return std::unexpected(size.error());
  }
  if (*size == 0) {
    auto ended = end_of_stream();
    co_return std::move(ended);
  }
  end_ += *size;
  auto parsed = parse();
  co_return std::move(parsed);
}

// A body without a length ends with the connection; anything else is cut short.
Result<> Connection::end_of_stream() {
  broken_ = true;
  if (!parser_->got_some()) return base::fail(ErrorCode::Lost, "EOF");
  beast::error_code error;
  parser_->put_eof(error);
  if (error) return base::fail(ErrorCode::Lost, "unexpected EOF");
  return {};
}

Result<> Connection::parse() {
  while (begin_ < end_ && !parser_->is_done()) {
    beast::error_code error;
    begin_ += parser_->put(boost::asio::buffer(buffer_.data() + begin_, end_ - begin_), error);
    if (error == beast::http::error::need_more) return {};
    if (error) {
      broken_ = true;
      return base::fail(ErrorCode::Invalid, "malformed HTTP response: " + error.message());
    }
  }
  return {};
}

bool Connection::reusable() const {
  return !broken_ && parser_->is_done() && parser_->keep_alive() && begin_ == end_;
}

bool Connection::answered() const { return parser_->got_some(); }

void Connection::close() { stream_->close(); }

}  // namespace http
