// When the change happened that a version of an EndpointSlice tells of. Pure.
#pragma once

#include <string_view>

#include "model/objects.h"

namespace source {

inline constexpr std::string_view kTriggerTimeAnnotation =
    "endpoints.kubernetes.io/last-change-trigger-time";

using TriggerTime = decltype(model::EndpointSlice::trigger_time);

// The annotation's value. The epoch, which is "not said", if it is no time or beyond the years that
// nanoseconds can count.
TriggerTime parse_trigger_time(std::string_view text);

}  // namespace source
