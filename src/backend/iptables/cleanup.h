// Taking our rules out of the kernel: those of mode iptables, and those that other modes keep in the same tables.
//
// All of them go in one transaction per table, as modes share chains: KUBE-MARK-MASQ cannot be deleted while a chain
// of another mode still jumps to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/iptables/rules.h"
#include "backend/iptables/skeleton.h"
#include "backend/iptables/transaction.h"
#include "base/result.h"
#include "net/ip.h"

namespace iptables {

// What modes have in the tables whatever Services there are, but for what the kubelet shares.
struct Owned {
  struct Chain {
    Table table;
    std::string name;
  };
  std::vector<Chain> chains;
  std::vector<Jump> jumps;
  bool service_chains = false;  // and all chains of Services as mode iptables names them
};
// Of mode iptables.
Owned owned();
// Of a mode with just these.
Owned owned(const std::vector<FixedChain>& chains, const std::vector<Jump>& jumps);
// What either has.
Owned both(Owned one, const Owned& other);

struct Removal {
  Transaction transaction;
  // Rules of somebody else that jump to a chain of ours. The kernel would refuse to delete such a chain, so it is
  // emptied instead.
  std::vector<std::string> in_the_way;
};

// Removes what is owned from one table. `dump` is what iptables-save prints for that table. Pure.
Removal diff_removal(Table table, std::string_view dump, const Owned& owned);

// Removes what is owned from the tables of that family. Errors are collected, not the end of it.
std::vector<base::Error> remove_rules(net::Family family, const Owned& owned);

}  // namespace iptables
