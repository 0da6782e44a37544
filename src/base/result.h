// Errors as values.
//
// A function that can fail for a reason from outside (network, kernel, user input) returns
// Result<T>. The caller passes the error up with TRY, usually after saying what it was doing:
//
//   auto text = TRY(read_file(path));
//   auto tree = TRY_CONTEXT(yaml::parse(text), "configuration " + path);
//
// Error codes are few: each stands for something a caller can do. Everything else is in the text.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace base {

enum class ErrorCode {
  Invalid,      // the input is wrong; the same call fails again
  NotFound,     // the named thing is not there
  Exists,       // the named thing is there already
  Permission,   // we may not do this
  Busy,         // somebody holds a lock; try again later
  Timeout,      // no answer in time; try again later
  Refused,      // nobody is there to answer; try again later
  Lost,         // the connection broke in the middle; try again
  Unsupported,  // this machine or this build cannot do it
  System,       // anything else that the operating system said
};

struct Error {
  ErrorCode code = ErrorCode::System;
  std::string text;

  // The same error with what the caller was doing in front: "CONTEXT: TEXT".
  Error in(std::string_view context) const {
    return Error{code, std::string(context) + ": " + text};
  }
};

template <typename T = void>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(ErrorCode code, std::string text) {
  return std::unexpected(Error{code, std::move(text)});
}

// An error made from errno: "WHAT: no such file or directory".
std::unexpected<Error> fail_errno(std::string_view what);
Error errno_error(std::string_view what, int number);

}  // namespace base

// TRY(expr): the value of a Result, or return its error from the enclosing function.
// A statement expression, so that it works for void and move-only values alike.
#define TRY(expr)                                                             \
  (__extension__({                                                            \
    auto&& try_result_ = (expr);                                              \
    if (!try_result_) return std::unexpected(std::move(try_result_).error()); \
    *std::move(try_result_);                                                  \
  }))

#define TRY_CONTEXT(expr, context)                                             \
  (__extension__({                                                             \
    auto&& try_result_ = (expr);                                               \
    if (!try_result_) return std::unexpected(try_result_.error().in(context)); \
    *std::move(try_result_);                                                   \
  }))
