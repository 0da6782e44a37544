#include "backend/userspace/ports.h"

#include "base/check.h"

namespace userspace {

using base::ErrorCode;
using base::Result;

Result<uint16_t> PortPool::take(uint16_t preferred, const Open& open) {
  auto taken = [&]() -> Result<uint16_t> {
    if (preferred != 0 && range_.contains(preferred) && !used_[preferred]) {
      auto opened = open(preferred);
      if (opened || opened.error().code != ErrorCode::Exists) return opened;
    }
    return range_.any() ? open(0) : take_from_range(open);
  }();
  if (taken) used_.set(*taken);
  return taken;
}

Result<uint16_t> PortPool::take_from_range(const Open& open) {
  CHECK(range_.first <= range_.last);
  const uint32_t size = uint32_t{range_.last} - range_.first + 1;
  const uint32_t start = std::uniform_int_distribution<uint32_t>(0, size - 1)(random_);
  for (uint32_t i = 0; i < size; ++i) {
    const auto port = static_cast<uint16_t>(range_.first + (start + i) % size);
    if (!is_free(port)) continue;
    auto opened = open(port);
    if (opened || opened.error().code != ErrorCode::Exists) return opened;
  }
  return base::fail(ErrorCode::Busy,
                    "port allocation failed; there are no remaining ports left to allocate in the "
                    "accepted range");
}

}  // namespace userspace
