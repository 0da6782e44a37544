#include "backend/iptables/chains.h"

#include <string>

#include "base/check.h"

namespace iptables {

Transaction chains_missing(const std::vector<FixedChain>& wanted, const std::vector<Jump>& jumps,
                           const Observed& observed) {
  TransactionBuilder out;
  for (const auto& chain : wanted) {
    if (!holds(observed[chain.table], chain)) out.write_chain(chain.table, chain.name, chain.rules);
  }
  for (const Jump& jump : jumps) {
    const std::string rule = jump.rule();
    if (observed[jump.table].has_jump(rule)) continue;
    jump.last ? out.append_at_bottom(jump.table, rule) : out.insert_at_top(jump.table, rule);
  }
  return out.finish();
}

Transaction chains_changed(const std::vector<FixedChain>& before,
                           const std::vector<FixedChain>& wanted) {
  CHECK(before.size() == wanted.size());
  TransactionBuilder out;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const FixedChain& chain = wanted[i];
    CHECK(before[i].name == chain.name && before[i].table == chain.table);
    if (before[i].rules != chain.rules) out.write_chain(chain.table, chain.name, chain.rules);
  }
  return out.finish();
}

}  // namespace iptables
