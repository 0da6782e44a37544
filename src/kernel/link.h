// Network devices, over netlink.
//
// Blocks; used on a sync thread and by one-shot commands.
#pragma once

#include <string>

#include "base/result.h"

namespace kernel {

// Removes the device `name` if it is of that kind ("dummy"). NotFound if there is none; Invalid, and nothing is
// removed, if it is of another kind.
base::Result<> delete_link(const std::string& name, const std::string& kind);

}  // namespace kernel
