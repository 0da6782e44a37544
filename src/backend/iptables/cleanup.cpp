#include "backend/iptables/cleanup.h"

#include <algorithm>
#include <set>

#include "backend/iptables/commit.h"
#include "backend/iptables/dump.h"
#include "backend/iptables/skeleton.h"
#include "base/text.h"

namespace iptables {
namespace {

// What is ours in one table.
class Ours {
 public:
  Ours(Table table, const Owned& owned)
      : service_chains_(table == Table::Nat && owned.service_chains) {
    for (const auto& chain : owned.chains)
      if (chain.table == table) chains_.insert(chain.name);
    for (const Jump& jump : owned.jumps)
      if (jump.table == table && jump.removed_by_cleanup) jumps_.insert(jump.rule());
  }

  bool chain(std::string_view name) const {
    return chains_.contains(name) || (service_chains_ && is_service_chain(name));
  }
  bool jump(std::string_view rule) const { return jumps_.contains(rule); }

 private:
  bool service_chains_;
  std::set<std::string, std::less<>> chains_;
  std::set<std::string, std::less<>> jumps_;
};

// The next word of a rule; one in quotes may have spaces inside.
std::string_view take_word(std::string_view& rule) {
  rule.remove_prefix(std::min(rule.find_first_not_of(' '), rule.size()));
  size_t end = 0;
  for (bool quoted = false; end < rule.size() && (quoted || rule[end] != ' '); ++end) {
    if (rule[end] == '\\')
      ++end;
    else if (rule[end] == '"')
      quoted = !quoted;
  }
  const std::string_view word = rule.substr(0, end);
  rule.remove_prefix(std::min(end, rule.size()));
  return word;
}

// Where a rule leads, by jump or goto; empty if nowhere.
std::string_view target_of(std::string_view rule) {
  while (!rule.empty()) {
    const std::string_view word = take_word(rule);
    if (word == "-j" || word == "-g") return take_word(rule);
  }
  return {};
}

bool has_chains_in(const Owned& owned, Table table) {
  return std::ranges::find(owned.chains, table, &Owned::Chain::table) != owned.chains.end();
}

base::Result<> remove_from(const Programs& programs, Table table, const Owned& owned) {
  const std::string dump = TRY(programs.save(table));
  Removal removal = diff_removal(table, dump, owned);
  TRY(programs.restore(std::move(removal.transaction)));
  if (removal.in_the_way.empty()) return {};
  std::string text = "emptied, and not deleted, chains of table " + std::string(name(table)) +
                     " that rules of somebody else jump to:";
  for (const auto& rule : removal.in_the_way)
    text += "\n" + rule;
  return base::fail(base::ErrorCode::Busy, std::move(text));
}

}  // namespace

Owned owned() {
  Owned out{.chains = {}, .jumps = jumps(), .service_chains = true};
  for (const Table table : kTables)
    for (const auto name : owned_chains(table))
      out.chains.push_back({table, std::string(name)});
  return out;
}

Owned owned(const std::vector<FixedChain>& chains, const std::vector<Jump>& jumps) {
  Owned out{.chains = {}, .jumps = jumps, .service_chains = false};
  for (const FixedChain& chain : chains)
    out.chains.push_back({chain.table, chain.name});
  return out;
}

Owned both(Owned one, const Owned& other) {
  one.chains.insert(one.chains.end(), other.chains.begin(), other.chains.end());
  one.jumps.insert(one.jumps.end(), other.jumps.begin(), other.jumps.end());
  one.service_chains = one.service_chains || other.service_chains;
  return one;
}

Removal diff_removal(Table table, std::string_view dump, const Owned& owned) {
  const Ours ours(table, owned);
  Removal removal;
  TransactionBuilder out;
  std::vector<std::string_view> chains;
  std::set<std::string_view> kept;
  for (const auto line : base::split(dump, '\n')) {
    const DumpLine parsed = parse_line(line);
    if (parsed.kind == DumpLine::Kind::Chain && ours.chain(parsed.name))
      chains.push_back(parsed.name);
    if (parsed.kind != DumpLine::Kind::Rule || ours.chain(parsed.name)) continue;
    if (ours.jump(parsed.rule)) {
      out.remove_rule(table, parsed.rule);
    } else if (const auto target = target_of(parsed.rule); ours.chain(target)) {
      kept.insert(target);
      removal.in_the_way.emplace_back(parsed.rule);
    }
  }
  for (const auto chain : chains) {
    if (kept.contains(chain)) {
      out.write_chain(table, chain, "");
    } else {
      out.delete_chain(table, chain);
    }
  }
  removal.transaction = out.finish();
  return removal;
}

std::vector<base::Error> remove_rules(net::Family family, const Owned& owned) {
  std::vector<base::Error> errors;
  const Programs programs(family);
  for (const Table table : {Table::Filter, Table::Nat, Table::Mangle}) {
    if (!has_chains_in(owned, table)) continue;
    const auto done = remove_from(programs, table, owned);
    if (!done) errors.push_back(done.error());
  }
  return errors;
}

}  // namespace iptables
