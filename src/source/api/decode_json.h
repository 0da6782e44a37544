// JSON of the API server, object by object to a tree and on through the decoders of manifests. Only
// wire.cpp calls this.
#pragma once

#include <string_view>

#include "base/result.h"
#include "source/api/wire.h"

namespace source::api::json {

// However long the list is, there is a tree of one object at a time.
base::Result<ListPage> decode_list(Resource resource, std::string_view body);

// One object {"type": ..., "object": ...} of a watch.
base::Result<Event> decode_event(Resource resource, std::string_view text);

base::Result<Status> decode_status(std::string_view body);

}  // namespace source::api::json
