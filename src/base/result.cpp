#include "base/result.h"

#include <errno.h>

#include <system_error>

#include "base/text.h"

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
    case EINTR:
    case ENOBUFS:
      code = ErrorCode::Busy;
      break;
    case ETIMEDOUT:
      code = ErrorCode::Timeout;
      break;
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
      code = ErrorCode::Unsupported;
      break;
    default:
      break;
  }
  // Messages of kube-proxy have them in lower case: "open /x: no such file or directory".
  std::string reason = std::generic_category().message(number);
  reason[0] = lower(reason.substr(0, 1))[0];
  return Error{code, std::string(what) + ": " + reason};
}

std::unexpected<Error> fail_errno(std::string_view what) {
  return std::unexpected(errno_error(what, errno));
}

}  // namespace base
