#include "source/trigger_time.h"

#include "base/rfc3339.h"

namespace source {

TriggerTime parse_trigger_time(std::string_view text) {
  const auto time = base::parse_rfc3339(text);
  if (!time) return {};
  using std::chrono::floor;
  using std::chrono::seconds;
  if (time->seconds <= floor<seconds>(TriggerTime::min()) ||
      time->seconds >= floor<seconds>(TriggerTime::max()))
    return {};
  return TriggerTime(time->seconds) + time->fraction;
}

}  // namespace source
