#include <map>

#include "backend/iptables/chains.h"
#include "backend/iptables/commit.h"
#include "backend/iptables/diff.h"
#include "backend/iptables/proxier.h"
#include "backend/iptables/tables.h"
#include "cli/modes.h"
#include "codec/json.h"
#include "daemon/node_setup.h"
#include "kernel/netfilter.h"

namespace cli {
namespace {

using base::Result;
using Chain = iptables::Tables::Chain;

iptables::Settings settings_of(const World& world, net::Family family) {
  return proxyd::iptables_settings(world.config, world.node, family);
}

Result<iptables::Tables> tables_for(const World& world, const iptables::Settings& settings) {
  const auto options =
      iptables::rule_options(settings, iptables::likely_capabilities(settings.family));
  const auto context = iptables::plan_context(settings, *world.snapshot);
  const auto node_ports = TRY(iptables::node_port_addresses(settings));
  iptables::Ledger ledger;
  const auto transaction = iptables::diff_full(
      {options, node_ports}, plan::compile_all(world.snapshot->services, context), {}, ledger);
  iptables::Tables tables = iptables::Tables::empty();
  TRY(tables.apply(transaction.str()));
  return tables;
}

std::vector<std::string> settings_changes(const iptables::Settings& settings) {
  std::vector<std::string> changes;
  if (settings.serves_localhost()) add_route_localnet(changes);
  if (!kernel::probe_counters()) return changes;
  for (const char* counter : {iptables::kInvalidCounter, iptables::kLocalhostCounter}) {
    if (!kernel::counter_exists(counter))
      changes.push_back(std::string("nfacct counter ") + counter + ": created");
  }
  return changes;
}

}  // namespace

std::string tables_json(const iptables::Tables& tables) {
  std::string out;
  for (const auto table : iptables::kTables) {
    if (table != iptables::kTables.front()) out += ',';
    out += "\n    {\"name\":\"" + std::string(iptables::name(table)) + "\",\"chains\":[";
    bool first = true;
    for (const auto& [name, chain] : tables[table]) {
      out += first ? "\n      " : ",\n      ";
      first = false;
      out += "{\"name\":\"" + name + "\",\"policy\":\"" + chain.policy + "\",\"rules\":[";
      append_strings(out, chain.rules);
      out += "]}";
    }
    out += "]}";
  }
  return out;
}

std::string tables_text(const iptables::Tables& tables, net::Family family) {
  const char* program = family == net::Family::V4 ? "iptables-save" : "ip6tables-save";
  return "# " + std::string(net::name(family)) + ", as " + program + " would print it\n" +
         tables.save();
}

std::vector<PartChange> compare_tables(const iptables::Tables& before,
                                       const iptables::Tables& after) {
  const auto rules = [](const Chain* chain) { return chain != nullptr ? &chain->rules : nullptr; };
  std::vector<PartChange> changes;
  for (const auto table : iptables::kTables) {
    std::map<std::string, std::pair<const Chain*, const Chain*>> all;
    for (const auto& [name, chain] : before[table])
      all[name].first = &chain;
    for (const auto& [name, chain] : after[table])
      all[name].second = &chain;
    for (const auto& [name, pair] : all) {
      const auto& [old_chain, new_chain] = pair;
      if (old_chain != nullptr && new_chain != nullptr && *old_chain == *new_chain) continue;
      PartChange change = compare(rules(old_chain), rules(new_chain));
      change.table = iptables::name(table);
      change.chain = name;
      changes.push_back(std::move(change));
    }
  }
  return changes;
}

Result<std::vector<PartChange>> compare_chains(const std::vector<iptables::FixedChain>& chains,
                                               const std::vector<iptables::Jump>& jumps,
                                               net::Family family) {
  const iptables::Programs programs(family);
  iptables::Observed observed;
  std::string dump;
  for (const auto table : {iptables::Table::Filter, iptables::Table::Nat}) {
    observed[table] = TRY(programs.observe(table));
    dump += TRY(programs.save(table));
  }
  const auto before = iptables::Tables::parse_save(dump);
  auto after = before;
  TRY_CONTEXT(after.apply(iptables::chains_missing(chains, jumps, observed).str()),
              "the rules changed meanwhile, try again");
  return compare_tables(before, after);
}

Result<Rendered> render_iptables(const World& world, net::Family family) {
  const auto tables = TRY(tables_for(world, settings_of(world, family)));
  return Rendered{.text = tables_text(tables, family), .tables_json = tables_json(tables)};
}

Result<Applied> apply_iptables(const World& world, net::Family family) {
  const auto settings = settings_of(world, family);
  iptables::Proxier proxier(settings);
  for (const auto& notice : proxier.probe())
    complain(notice.err.empty() ? notice.message : notice.message + ": " + notice.err);
  Applied applied;
  if (settings.serves_localhost())
    applied.route_localnet = TRY(proxyd::allow_localhost_node_ports());
  applied.report = TRY(proxier.sync({world.snapshot, {}, true}));
  return applied;
}

Result<FamilyChange> diff_iptables(const World& world, net::Family family) {
  const auto settings = settings_of(world, family);
  iptables::Proxier proxier(settings);
  proxier.probe();
  const auto transaction = TRY(proxier.preview(*world.snapshot));
  std::string dump;
  for (const auto table : iptables::kTables)
    dump += TRY(iptables::Programs(family).save(table));
  const auto before = iptables::Tables::parse_save(dump);
  auto after = before;
  TRY_CONTEXT(after.apply(transaction.str()), "the rules changed meanwhile, try again");
  return FamilyChange{compare_tables(before, after), settings_changes(settings)};
}

}  // namespace cli
