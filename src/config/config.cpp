#include "config/config.h"

namespace config {
namespace {

// A sync of the other modes costs as much as has changed, so that nothing needs to be put off. Changes that come
// faster than this still go together.
constexpr std::chrono::milliseconds kShortGap{10};

}  // namespace

Duration min_sync_gap(const Config& config) {
  const bool waits = config.mode == "iptables" || config.min_sync_period_written;
  return waits ? config.min_sync_period : kShortGap;
}

}  // namespace config
