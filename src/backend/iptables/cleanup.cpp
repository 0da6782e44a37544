#include "backend/iptables/cleanup.h"

#include <algorithm>
#include <set>

#include "backend/iptables/commit.h"
#include "backend/iptables/dump.h"
#include "backend/iptables/skeleton.h"
#include "base/text.h"

namespace iptables {
namespace {

// Of mode ipvs, beyond what mode iptables has, too.
const std::vector<Jump>& ipvs_jumps() {
  static constexpr std::string_view kHealth =
      " -m comment --comment \"kubernetes health check rules\"";
  static constexpr std::string_view kFirewall =
      " -m comment --comment \"kube-proxy firewall rules\"";
  static constexpr std::string_view kAccess =
      " -m comment --comment \"kubernetes ipvs access filter\"";
  static const std::vector<Jump> kJumps{
      {Table::Filter, "INPUT", "KUBE-NODE-PORT", kHealth, true},
      {Table::Filter, "INPUT", "KUBE-PROXY-FIREWALL", kFirewall, true},
      {Table::Filter, "FORWARD", "KUBE-PROXY-FIREWALL", kFirewall, true},
      {Table::Filter, "INPUT", "KUBE-IPVS-FILTER", kAccess, true},
      {Table::Filter, "OUTPUT", "KUBE-IPVS-OUT-FILTER", kAccess, true},
  };
  return kJumps;
}

std::vector<std::string_view> ipvs_chains(Table table) {
  switch (table) {
    case Table::Mangle:
      return {};
    case Table::Filter:
      return {"KUBE-NODE-PORT", "KUBE-SOURCE-RANGES-FIREWALL", "KUBE-IPVS-FILTER",
              "KUBE-IPVS-OUT-FILTER"};
    case Table::Nat:
      return {"KUBE-NODE-PORT", "KUBE-LOAD-BALANCER"};
  }
  return {};
}

// What is ours in one table.
class Ours {
 public:
  explicit Ours(Table table) : table_(table) {
    for (const auto& names : {owned_chains(table), ipvs_chains(table)})
      chains_.insert(names.begin(), names.end());
    for (const auto* list : {&jumps(), &ipvs_jumps()}) {
      for (const Jump& jump : *list)
        if (jump.table == table && jump.removed_by_cleanup) jumps_.insert(jump.rule());
    }
  }

  bool chain(std::string_view name) const {
    return chains_.contains(name) || (table_ == Table::Nat && is_service_chain(name));
  }
  bool jump(std::string_view rule) const { return jumps_.contains(rule); }

 private:
  Table table_;
  std::set<std::string_view> chains_;
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

base::Result<> remove_from(const Programs& programs, Table table) {
  const std::string dump = TRY(programs.save(table));
  Removal removal = diff_removal(table, dump);
  TRY(programs.restore(std::move(removal.transaction)));
  if (removal.in_the_way.empty()) return {};
  std::string text = "emptied, and not deleted, chains of table " + std::string(name(table)) +
                     " that rules of somebody else jump to:";
  for (const auto& rule : removal.in_the_way)
    text += "\n" + rule;
  return base::fail(base::ErrorCode::Busy, std::move(text));
}

}  // namespace

Removal diff_removal(Table table, std::string_view dump) {
  const Ours ours(table);
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

std::vector<base::Error> remove_rules(net::Family family) {
  std::vector<base::Error> errors;
  const Programs programs(family);
  for (const Table table : {Table::Filter, Table::Nat, Table::Mangle}) {
    const auto done = remove_from(programs, table);
    if (!done) errors.push_back(done.error());
  }
  return errors;
}

}  // namespace iptables
