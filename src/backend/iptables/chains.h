// Chains with their rules, and the jumps that lead to them, brought into the kernel as a whole. Pure.
//
// For modes that write each of their chains entirely or not at all.
#pragma once

#include <vector>

#include "backend/iptables/diff.h"
#include "backend/iptables/skeleton.h"
#include "backend/iptables/transaction.h"

namespace iptables {

// What has to be written so that the tables, as observed, have these chains and jumps.
Transaction chains_missing(const std::vector<FixedChain>& wanted, const std::vector<Jump>& jumps,
                           const Observed& observed);
// ... if they have the chains of `before`, which differ in their rules at most, and the jumps.
Transaction chains_changed(const std::vector<FixedChain>& before,
                           const std::vector<FixedChain>& wanted);

}  // namespace iptables
