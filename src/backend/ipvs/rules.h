// The iptables rules of mode ipvs, written the way iptables-save prints them. Pure.
//
// Their number does not depend on the number of Services, but for KUBE-IPVS-OUT-FILTER: what differs from Service to
// Service is in sets.
#pragma once

#include <bitset>
#include <vector>

#include "backend/iptables/chains.h"
#include "backend/iptables/cleanup.h"
#include "backend/iptables/diff.h"
#include "backend/iptables/skeleton.h"
#include "backend/iptables/transaction.h"
#include "backend/ipvs/contents.h"
#include "backend/ipvs/layout.h"

namespace ipvs {

using Filled = std::bitset<kSets>;  // by SetId: has the set members?

// The chains in the order in which they are made, each with its rules.
std::vector<iptables::FixedChain> chains(const Options& options, const Filled& filled,
                                         const std::vector<Guard>& guards);
// From built-in chains to ours, in the order in which they are put at the top if missing.
const std::vector<iptables::Jump>& jumps();
// All of them, for taking them away.
iptables::Owned owned();

// What has to be written so that the tables nat and filter, as observed, have these chains and the jumps.
inline iptables::Transaction rules_missing(const std::vector<iptables::FixedChain>& wanted,
                                           const iptables::Observed& observed) {
  return iptables::chains_missing(wanted, jumps(), observed);
}

}  // namespace ipvs
