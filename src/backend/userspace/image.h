// What mode userspace would have in the kernel: for `render` and `diff`, which open no sockets. Pure.
#pragma once

#include <vector>

#include "backend/iptables/skeleton.h"
#include "backend/userspace/adopt.h"
#include "backend/userspace/portals.h"
#include "backend/userspace/settings.h"
#include "model/store.h"

namespace userspace {

// All chains, with the proxy ports that the kernel's rules have now (AdoptedPorts::parse; none for render). Where
// these have none, ports are counted up from the beginning of the range, or from 40000 on if any will do.
std::vector<iptables::FixedChain> chains_of(const Settings& settings,
                                            const model::Snapshot& snapshot,
                                            const AdoptedPorts& adopted = {});

}  // namespace userspace
