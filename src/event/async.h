// Coroutines on the loop thread.
//
// A function that waits is a coroutine that returns Async<T> and is awaited: it reads from top to
// bottom. Rules, because of g++ 12 (docs/decisions/0007-coroutines.md):
//
// - parameters are references to things that outlive the call, or trivially destructible values;
// - no temporary with a destructor inside a co_await expression: give it a name first;
// - no a ? b : c with such temporaries anywhere in a coroutine: decide in a plain function;
// - errors are values (Result), nothing is thrown through an await.
#pragma once

#include <chrono>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace event {

template <typename T = void>
using Async = boost::asio::awaitable<T>;

// Waits; wakes early only if the loop ends.
inline Async<> sleep_for(std::chrono::nanoseconds time) {
  const auto executor = co_await boost::asio::this_coro::executor;
  boost::asio::steady_timer timer(executor, time);
  boost::system::error_code ignored;
  co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
}

}  // namespace event
