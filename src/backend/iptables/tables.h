// Tables as values: an in-memory netfilter that a Transaction can be applied to.
//
// It rejects what the kernel rejects (a jump to a chain that is not there, deleting a chain that
// is in use), so that a transaction which passes here passes there; tests run the same cases on
// both. `kube-proxy render` is a transaction applied to empty tables, `diff` one applied to what
// iptables-save printed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/iptables/rules.h"
#include "base/result.h"

namespace iptables {

class Tables {
 public:
  struct Chain {
    std::string policy = "-";        // of a built-in chain: ACCEPT or DROP
    std::vector<std::string> rules;  // "-A CHAIN ...", as iptables-save prints them

    bool operator==(const Chain&) const = default;
  };
  using Chains = std::map<std::string, Chain, std::less<>>;

  // The built-in chains of the three tables, without rules.
  static Tables empty();
  // What iptables-save printed. Tables that are not ours (raw, security) are left out.
  static Tables parse_save(std::string_view text);

  // As `iptables-restore --noflush` does it: all or nothing for each table. The first error ends it.
  base::Result<> apply(std::string_view restore_text);

  // As iptables-save prints it (counters at zero).
  std::string save() const;

  const Chains& operator[](Table table) const { return chains_.at(table); }
  bool operator==(const Tables&) const = default;

 private:
  static base::Result<> apply_line(Chains& chains, std::string_view line);

  std::map<Table, Chains> chains_;
};

}  // namespace iptables
