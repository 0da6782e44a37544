#include "daemon/update.h"

namespace proxyd {

void TriggerTimes::merge(TriggerTimes later) {
  for (auto& [key, times] : later.services_) {
    Times& mine = services_[key];
    if (times.forgotten) {
      mine = std::move(times);
    } else {
      mine.times.insert(mine.times.end(), times.times.begin(), times.times.end());
    }
  }
}

std::vector<TriggerTimes::Time> TriggerTimes::of(net::Family family) const {
  std::vector<Time> all;
  for (const auto& [key, times] : services_) {
    if (key.first == family) all.insert(all.end(), times.times.begin(), times.times.end());
  }
  return all;
}

}  // namespace proxyd
