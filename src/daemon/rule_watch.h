// Hears of what others do to the rules of one family, and tells its sync thread. Loop thread.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "base/result.h"
#include "daemon/intake.h"
#include "daemon/loop.h"

namespace proxyd {

class RuleWatch {
 public:
  RuleWatch(Loop& loop, std::unique_ptr<backend::Watch> watch, Mailbox mailbox);

  base::Result<> start();

 private:
  void hear();

  std::unique_ptr<backend::Watch> watch_;
  Mailbox mailbox_;
  Readable news_;
};

}  // namespace proxyd
