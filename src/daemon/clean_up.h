// Removing what a proxy mode has left in the kernel, ours or the real kube-proxy's.
//
// Never removed, as in the real one: the chain KUBE-FIREWALL with its jumps (the kubelet has the same), sysctls,
// nfacct counters, tracked connections. When the daemon ends, everything stays: traffic goes on.
#pragma once

#include <string_view>

#include "net/ip.h"

namespace proxyd {

// May another mode than nftables have left rules in this family? Looks without any program; in doubt, yes.
bool may_have_iptables_rules(net::Family family);

// Removes what a mode that gets in the way of `mode` would have left in this family. Failures are told, and ignored.
//
// Done after the first sync, not before: until then the old rules serve, and both lead to the same endpoints.
void clean_other_modes(std::string_view mode, net::Family family);

// --cleanup: removes what any mode has left. Tells what failed; false if anything did.
bool clean_up_everything();

}  // namespace proxyd
