#include "backend/iptables/tables.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "backend/iptables/dump.h"
#include "base/text.h"

namespace iptables {
namespace {

using base::ErrorCode;
using base::fail;
using base::Result;
using Chains = Tables::Chains;

std::optional<Table> table_named(std::string_view text) {
  for (const Table table : kTables) {
    if (name(table) == text) return table;
  }
  return std::nullopt;
}

// Built-in chains come first in a dump, in the order in which packets pass the hooks.
size_t rank(std::string_view chain) {
  constexpr std::array<std::string_view, 5> kHooks{"PREROUTING", "INPUT", "FORWARD", "OUTPUT",
                                                   "POSTROUTING"};
  return static_cast<size_t>(std::ranges::find(kHooks, chain) - kHooks.begin());
}

// The chain that a rule jumps to, if it is one of ours and not a target of the kernel.
std::string_view jump_target(std::string_view rule) {
  const size_t at = rule.rfind(" -j ");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = rule.substr(at + 4);
  const std::string_view target = rest.substr(0, rest.find(' '));
  return target.starts_with("KUBE-") ? target : std::string_view{};
}

bool in_use(const Chains& chains, std::string_view chain) {
  for (const auto& [_, other] : chains) {
    for (const auto& rule : other.rules) {
      if (jump_target(rule) == chain) return true;
    }
  }
  return false;
}

Result<Tables::Chain*> chain_of_rule(Chains& chains, const DumpLine& line) {
  const auto chain = chains.find(line.name);
  if (chain == chains.end()) {
    return fail(ErrorCode::NotFound, "no chain " + std::string(line.name));
  }
  const std::string_view target = jump_target(line.rule);
  if (!target.empty() && !chains.contains(target)) {
    return fail(ErrorCode::NotFound, "no chain " + std::string(target) + " to jump to");
  }
  return &chain->second;
}

Result<> define_chain(Chains& chains, const DumpLine& line) {
  auto& chain = chains[std::string(line.name)];
  if (line.policy == "-") chain.rules.clear();
  if (line.policy != "-") chain.policy = line.policy;
  return {};
}

Result<> delete_chain(Chains& chains, std::string_view name) {
  const auto chain = chains.find(name);
  if (chain == chains.end()) return fail(ErrorCode::NotFound, "no chain " + std::string(name));
  if (!chain->second.rules.empty()) {
    return fail(ErrorCode::Busy, "chain " + std::string(name) + " is not empty");
  }
  if (in_use(chains, name))
    return fail(ErrorCode::Busy, "chain " + std::string(name) + " is in use");
  chains.erase(chain);
  return {};
}

Result<> delete_rule(Tables::Chain& chain, const std::string& rule) {
  const auto found = std::ranges::find(chain.rules, rule);
  if (found == chain.rules.end()) return fail(ErrorCode::NotFound, "no such rule: " + rule);
  chain.rules.erase(found);
  return {};
}

}  // namespace

Tables Tables::empty() {
  Tables tables;
  const auto built_in = [&](Table table, std::initializer_list<const char*> names) {
    for (const char* chain : names)
      tables.chains_[table][chain].policy = "ACCEPT";
  };
  built_in(Table::Mangle, {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"});
  built_in(Table::Filter, {"INPUT", "FORWARD", "OUTPUT"});
  built_in(Table::Nat, {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"});
  return tables;
}

Tables Tables::parse_save(std::string_view text) {
  Tables tables = empty();
  Chains* chains = nullptr;
  for (const auto line : base::split(text, '\n')) {
    const DumpLine parsed = parse_line(line);
    if (parsed.kind == DumpLine::Kind::Table) {
      const auto table = table_named(parsed.name);
      chains = table ? &tables.chains_[*table] : nullptr;
    } else if (chains != nullptr && parsed.kind == DumpLine::Kind::Chain) {
      (*chains)[std::string(parsed.name)].policy = parsed.policy;
    } else if (chains != nullptr && parsed.kind == DumpLine::Kind::Rule) {
      (*chains)[std::string(parsed.name)].rules.emplace_back(parsed.rule);
    }
  }
  return tables;
}

Result<> Tables::apply_line(Chains& chains, std::string_view line) {
  if (line.starts_with("-X ")) return delete_chain(chains, line.substr(3));
  // -I and -D have the form of -A: read them as such.
  std::string as_append(line);
  const bool insert = line.starts_with("-I ");
  const bool remove = line.starts_with("-D ");
  if (insert || remove) as_append[1] = 'A';
  const DumpLine parsed = parse_line(as_append);
  if (parsed.kind == DumpLine::Kind::Chain) return define_chain(chains, parsed);
  if (parsed.kind != DumpLine::Kind::Rule) {
    return fail(ErrorCode::Invalid, "not understood: " + std::string(line));
  }
  Chain* chain = TRY(chain_of_rule(chains, parsed));
  std::string rule(parsed.rule);
  if (remove) return delete_rule(*chain, rule);
  chain->rules.insert(insert ? chain->rules.begin() : chain->rules.end(), std::move(rule));
  return {};
}

Result<> Tables::apply(std::string_view restore_text) {
  Chains working;
  std::optional<Table> table;
  size_t number = 0;
  for (const auto line : base::split(restore_text, '\n')) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    const std::string where = "line " + std::to_string(number);
    if (line.starts_with('*')) {
      table = table_named(line.substr(1));
      if (!table)
        return fail(ErrorCode::NotFound, where + ": no table " + std::string(line.substr(1)));
      working = chains_[*table];
    } else if (!table) {
      return fail(ErrorCode::Invalid, where + ": outside of a table");
    } else if (line == "COMMIT") {
      chains_[*table] = std::exchange(working, {});
      table.reset();
    } else {
      TRY_CONTEXT(apply_line(working, line), where);
    }
  }
  return {};
}

std::string Tables::save() const {
  std::string out;
  for (const auto& [table, chains] : chains_) {
    std::vector<const Chains::value_type*> ordered;
    for (const auto& entry : chains)
      ordered.push_back(&entry);
    std::ranges::stable_sort(ordered, {}, [](const auto* entry) { return rank(entry->first); });
    out += "*" + std::string(name(table)) + "\n";
    for (const auto* entry : ordered) {
      out += ":" + entry->first + " " + entry->second.policy + " [0:0]\n";
    }
    for (const auto* entry : ordered) {
      for (const auto& rule : entry->second.rules)
        out += rule + "\n";
    }
    out += "COMMIT\n";
  }
  return out;
}

}  // namespace iptables
