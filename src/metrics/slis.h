// The service level indicators of /metrics/slis: how often the metrics server's own health was asked
// for. Its only check, "ping", never fails. Loop thread.
#pragma once

#include <cstdint>
#include <string>

#include "metrics/exposition.h"

namespace metrics {

class Slis {
 public:
  void ping_succeeded() { ++pings_; }
  std::string show(Format format) const;

 private:
  uint64_t pings_ = 0;
};

}  // namespace metrics
