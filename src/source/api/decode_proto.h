// Protobuf of the API server: "k8s\0", then runtime.Unknown around the object. Only wire.cpp calls this.
#pragma once

#include <string_view>

#include "base/result.h"
#include "source/api/wire.h"

namespace source::api::proto {

base::Result<ListPage> decode_list(Resource resource, std::string_view body);

// One frame of a watch, without its length.
base::Result<Event> decode_event(Resource resource, std::string_view frame);

base::Result<Status> decode_status(std::string_view body);

}  // namespace source::api::proto
