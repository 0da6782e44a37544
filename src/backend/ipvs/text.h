// What mode ipvs has in the kernel, as the usual tools print it: for `kube-proxy render` and `diff`, and for tests.
#pragma once

#include <string>
#include <vector>

#include "backend/ipvs/ledger.h"

namespace ipvs {

// Each line with a newline, sorted by what it is about.
// As `ipvsadm-save -n`: "-A -t 10.96.0.1:443 -s rr", "-a -t 10.96.0.1:443 -r 172.31.0.1:6443 -m -w 1".
std::string servers_text(const Observed& state);
// As `ipset save`, without what the kernel draws at random.
std::string sets_text(const Observed& state, net::Family family);
// As `ip -o addr show dev kube-ipvs0`, as far as it is about addresses.
std::string addresses_text(const Observed& state);

}  // namespace ipvs
