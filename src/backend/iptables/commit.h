// The iptables programs of one family: the only part of this backend that touches the kernel.
//
// Which variant (legacy or nf_tables) is behind the names is decided by PATH, as for kube-proxy.
// Blocks while a program runs; used on the sync thread and by one-shot commands.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/iptables/connections.h"
#include "backend/iptables/diff.h"
#include "backend/iptables/transaction.h"
#include "base/result.h"
#include "net/ip.h"

namespace iptables {

class Programs {
 public:
  explicit Programs(net::Family family);

  // Can we see the nat table? The error says what to do about it.
  base::Result<> probe() const;

  // Has MASQUERADE the option --random-fully (iptables 1.6.2)? Yes if the version is not known.
  bool random_fully() const;
  // "iptables v1.8.9 (nf_tables)", or empty.
  std::string version() const;

  // What the kernel holds in one table.
  base::Result<ObservedTable> observe(Table table) const;
  // ... and in all three that we use.
  base::Result<Observed> observe_all() const;
  // The counters of the nat table.
  base::Result<ChainConnections> connections() const;
  // The dump itself, for diff.
  base::Result<std::string> save(Table table) const;

  // All or nothing for each table. Consumes the transaction's text while writing it.
  base::Result<> restore(Transaction transaction) const;

  enum class Presence { There, Gone, Unknown };
  // Unknown: the program could not be run, or somebody else held the lock.
  Presence chain_presence(Table table, std::string_view chain) const;

 private:
  base::Result<> read_dump(Table table, std::vector<std::string> options,
                           std::function<void(std::string_view)> read) const;

  std::string iptables_;  // "iptables" or "ip6tables"
};

}  // namespace iptables
