// Taking our rules out of the kernel: those of mode iptables, and those that mode ipvs keeps in the same tables.
//
// Both go in one transaction per table, as the modes share chains: KUBE-MARK-MASQ cannot be deleted while a chain of
// the other mode still jumps to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/iptables/rules.h"
#include "backend/iptables/transaction.h"
#include "base/result.h"
#include "net/ip.h"

namespace iptables {

struct Removal {
  Transaction transaction;
  // Rules of somebody else that jump to a chain of ours. The kernel would refuse to delete such a chain, so it is
  // emptied instead.
  std::vector<std::string> in_the_way;
};

// Removes everything of ours from one table, but for what the kubelet shares. `dump` is what iptables-save prints
// for that table. Pure.
Removal diff_removal(Table table, std::string_view dump);

// Removes our rules of that family. Errors are collected, not the end of it.
std::vector<base::Error> remove_rules(net::Family family);

}  // namespace iptables
