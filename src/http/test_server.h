// A server for tests: says what it is told to, whatever is asked.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "event/async.h"

namespace http {

class CannedServer {
 public:
  explicit CannedServer(boost::asio::io_context& io)
      : acceptor_(io, {boost::asio::ip::address_v4::loopback(), 0}) {
    boost::asio::co_spawn(io, accept(), boost::asio::detached);
  }

  // The answer to each request in turn; the last one again and again.
  std::vector<std::string> answers;
  bool hang_up = true;                // after each answer
  std::vector<std::string> requests;  // heads, as they came
  int connections = 0;

  uint16_t port() const { return acceptor_.local_endpoint().port(); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }

 private:
  event::Async<> accept() {
    while (true) {
      boost::system::error_code error;
      auto socket = co_await acceptor_.async_accept(
          boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error) co_return;
      ++connections;
      boost::asio::co_spawn(acceptor_.get_executor(), serve(std::move(socket)),
                            boost::asio::detached);
    }
  }

  event::Async<> serve(boost::asio::ip::tcp::socket socket) {
    while (true) {
      std::string head;
      std::array<char, 1> byte{};
      boost::system::error_code error;
      while (!head.ends_with("\r\n\r\n")) {
        co_await socket.async_read_some(
            boost::asio::buffer(byte),
            boost::asio::redirect_error(boost::asio::use_awaitable, error));
        if (error) co_return;
        head += byte[0];
      }
      const std::string& answer = answers[std::min(requests.size(), answers.size() - 1)];
      requests.push_back(head);
      co_await boost::asio::async_write(
          socket, boost::asio::buffer(answer),
          boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error || hang_up) co_return;
    }
  }

  boost::asio::ip::tcp::acceptor acceptor_;
};

// Runs a coroutine to its end and gives its value. Bounded: a test that hangs fails.
template <typename T>
T await(boost::asio::io_context& io, event::Async<T> work) {
  std::optional<T> out;
  boost::asio::co_spawn(io, std::move(work), [&](const std::exception_ptr& thrown, T value) {
    if (thrown) std::rethrow_exception(thrown);
    out.emplace(std::move(value));
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!out && std::chrono::steady_clock::now() < deadline)
    io.run_one_until(deadline);
  if (!out) throw std::runtime_error("the coroutine did not end");
  return std::move(*out);
}

}  // namespace http
