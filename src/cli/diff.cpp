#include <map>

#include "backend/iptables/commit.h"
#include "backend/iptables/tables.h"
#include "cli/commands.h"
#include "codec/json.h"
#include "daemon/node_setup.h"
#include "kernel/netfilter.h"
#include "kernel/sysctl.h"

namespace cli {
namespace {

using base::Result;
using Chain = iptables::Tables::Chain;

// What would change in one chain.
struct ChainChange {
  std::string table;
  std::string chain;
  bool created = false;
  bool deleted = false;
  std::vector<std::string> removed;
  std::vector<std::string> added;
};

struct FamilyChange {
  net::Family family = net::Family::V4;
  std::vector<ChainChange> chains;
  std::vector<std::string> settings;  // "sysctl net/ipv4/...: 0 -> 1"

  bool empty() const { return chains.empty() && settings.empty(); }
};

// The rules of `a` that `b` has not, in order; a rule that is there twice counts twice.
std::vector<std::string> without(const std::vector<std::string>& a,
                                 const std::vector<std::string>& b) {
  std::map<std::string_view, size_t> left;
  for (const auto& rule : b)
    ++left[rule];
  std::vector<std::string> out;
  for (const auto& rule : a) {
    auto found = left.find(rule);
    if (found == left.end() || found->second == 0) {
      out.push_back(rule);
    } else {
      --found->second;
    }
  }
  return out;
}

ChainChange compare(const Chain* before, const Chain* after) {
  static const std::vector<std::string> kNone;
  const auto& old_rules = before != nullptr ? before->rules : kNone;
  const auto& new_rules = after != nullptr ? after->rules : kNone;
  ChainChange change;
  change.created = before == nullptr;
  change.deleted = after == nullptr;
  change.removed = without(old_rules, new_rules);
  change.added = without(new_rules, old_rules);
  return change;
}

std::vector<ChainChange> compare_tables(const iptables::Tables& before,
                                        const iptables::Tables& after) {
  std::vector<ChainChange> changes;
  for (const auto table : iptables::kTables) {
    std::map<std::string, std::pair<const Chain*, const Chain*>> all;
    for (const auto& [name, chain] : before[table])
      all[name].first = &chain;
    for (const auto& [name, chain] : after[table])
      all[name].second = &chain;
    for (const auto& [name, pair] : all) {
      const auto& [old_chain, new_chain] = pair;
      if (old_chain != nullptr && new_chain != nullptr && *old_chain == *new_chain) continue;
      ChainChange change = compare(old_chain, new_chain);
      change.table = iptables::name(table);
      change.chain = name;
      changes.push_back(std::move(change));
    }
  }
  return changes;
}

std::vector<std::string> settings_changes(const iptables::Settings& settings) {
  std::vector<std::string> changes;
  if (settings.serves_localhost()) {
    const auto now = kernel::read_sysctl("net/ipv4/conf/all/route_localnet");
    if (now && *now != 1)
      changes.push_back("sysctl net/ipv4/conf/all/route_localnet: " + std::to_string(*now) +
                        " -> 1");
  }
  if (!kernel::probe_counters()) return changes;
  for (const char* counter : {iptables::kInvalidCounter, iptables::kLocalhostCounter}) {
    if (!kernel::counter_exists(counter))
      changes.push_back(std::string("nfacct counter ") + counter + ": created");
  }
  return changes;
}

Result<FamilyChange> diff_family(const World& world, net::Family family) {
  const auto settings = proxyd::iptables_settings(world.config, world.node, family);
  iptables::Proxier proxier(settings);
  proxier.probe();
  const auto transaction = TRY(proxier.preview(*world.snapshot));
  std::string dump;
  for (const auto table : iptables::kTables)
    dump += TRY(iptables::Programs(family).save(table));
  const auto before = iptables::Tables::parse_save(dump);
  auto after = before;
  TRY_CONTEXT(after.apply(transaction.str()), "the rules changed meanwhile, try again");
  return FamilyChange{family, compare_tables(before, after), settings_changes(settings)};
}

std::string as_text(const FamilyChange& change) {
  std::string out = "# " + std::string(net::name(change.family));
  if (change.empty()) return out + ": nothing would change\n";
  out += "\n";
  for (const auto& setting : change.settings)
    out += "! " + setting + "\n";
  for (const auto& chain : change.chains) {
    out += "@@ " + chain.table + " " + chain.chain;
    if (chain.created) out += " (new)";
    if (chain.deleted) out += " (deleted)";
    if (!chain.created && !chain.deleted && chain.removed.empty() && chain.added.empty()) {
      out += " (the same rules in another order)";
    }
    out += "\n";
    for (const auto& rule : chain.removed)
      out += "-" + rule + "\n";
    for (const auto& rule : chain.added)
      out += "+" + rule + "\n";
  }
  return out;
}

void append_strings(std::string& out, const std::vector<std::string>& items) {
  for (const auto& item : items) {
    if (&item != &items.front()) out += ',';
    codec::json::append_string(out, item);
  }
}

std::string as_json(const FamilyChange& change) {
  std::string out = "{\"family\":\"" + std::string(net::name(change.family)) + "\",\"settings\":[";
  append_strings(out, change.settings);
  out += "],\"chains\":[";
  for (const auto& chain : change.chains) {
    out += &chain == &change.chains.front() ? "\n    " : ",\n    ";
    out += "{\"table\":\"" + chain.table + "\",\"chain\":\"" + chain.chain + "\",\"state\":\"" +
           (chain.created   ? "new"
            : chain.deleted ? "deleted"
                            : "changed") +
           "\",\"removed\":[";
    append_strings(out, chain.removed);
    out += "],\"added\":[";
    append_strings(out, chain.added);
    out += "]}";
  }
  return out + "]}";
}

}  // namespace

int diff(const Arguments& arguments) {
  constexpr int kTrouble = 2;
  const auto world = load_world(arguments);
  if (!world) return complain(world.error().text), kTrouble;
  const auto support = proxyd::probe_families();
  std::string out;
  int status = 0;
  bool trouble = !world->complete;
  size_t served = 0;
  for (const auto& notice : support.notices)
    complain(notice.str());
  for (const auto family : arguments.families) {
    if (!(family == net::Family::V4 ? support.v4 : support.v6)) continue;
    ++served;
    const auto change = diff_family(*world, family);
    if (!change) {
      complain(std::string(net::name(family)) + ": " + change.error().text);
      trouble = true;
      continue;
    }
    if (!change->empty()) status = 1;
    out += arguments.json ? (out.empty() ? "\n  " : ",\n  ") + as_json(*change) : as_text(*change);
  }
  out = arguments.json ? "{\"mode\":\"iptables\",\"families\":[" + out + "]}\n" : out;
  return print(out, trouble || served == 0 ? kTrouble : status);
}

}  // namespace cli
