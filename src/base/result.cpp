#include "base/result.h"

#include <errno.h>

#include <system_error>

namespace base {

Error errno_error(std::string_view what, int number) {
  ErrorCode code = ErrorCode::System;
  switch (number) {
    case ENOENT:
      code = ErrorCode::NotFound;
      break;
    case EEXIST:
      code = ErrorCode::Exists;
      break;
    case EPERM:
    case EACCES:
      code = ErrorCode::Permission;
      break;
    case EBUSY:
    case EAGAIN:
      code = ErrorCode::Busy;
      break;
    case ETIMEDOUT:
      code = ErrorCode::Timeout;
      break;
    default:
      break;
  }
  return Error{code, std::string(what) + ": " + std::generic_category().message(number)};
}

std::unexpected<Error> fail_errno(std::string_view what) {
  return std::unexpected(errno_error(what, errno));
}

}  // namespace base
