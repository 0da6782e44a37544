#include "config/config.h"

namespace config {
namespace {

// A sync of modes nftables and ipvs costs as much as has changed, so that nothing needs to be put off. Changes that
// come faster than this still go together.
constexpr std::chrono::milliseconds kShortGap{10};

}  // namespace

Duration min_sync_gap(const Config& config) {
  const bool quick = config.mode == "nftables" || config.mode == "ipvs";
  const bool waits = !quick || config.min_sync_period_written;
  return waits ? config.min_sync_period : kShortGap;
}

}  // namespace config
