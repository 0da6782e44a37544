// The kernel's table of tracked connections, over netlink.
//
// Blocks; used on a sync thread. Memory does not depend on the size of the table: entries are looked at one at a
// time, as they arrive.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "base/result.h"
#include "net/flow.h"

namespace kernel {

struct Sweep {
  std::optional<base::Error> failure{};  // the first entry that could not be deleted
  size_t seen = 0;                       // entries that the kernel showed us
  size_t deleted = 0;
  bool interrupted =
      false;  // the table changed under our hands to the last attempt: some entries may not have been seen
};

// Deletes the entries of one family and protocol that `stale` says are so, in one pass. Entries that vanish by
// themselves meanwhile are no error. An error: the table could not be read.
base::Result<Sweep> sweep_flows(net::Family family, net::Protocol protocol,
                                const std::function<bool(const net::Flow&)>& stale);

// Calls `visit` for each entry of one family and protocol, and changes nothing. Entries may come more than once: a pass
// that the kernel has interrupted begins anew.
base::Result<Sweep> visit_flows(net::Family family, net::Protocol protocol,
                                const std::function<void(const net::Flow&)>& visit);

}  // namespace kernel
