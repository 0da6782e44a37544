// What the subcommands ask of each proxy mode, for one family.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/iptables/skeleton.h"
#include "backend/iptables/tables.h"
#include "base/result.h"
#include "cli/subcommand.h"
#include "net/ip.h"

namespace cli {

// What would be in the kernel.
struct Rendered {
  std::string text;         // as the tool of the mode would print it
  std::string tables_json;  // the elements of a list, without its brackets
};
base::Result<Rendered> render_iptables(const World& world, net::Family family);
base::Result<Rendered> render_nftables(const World& world, net::Family family);
base::Result<Rendered> render_ipvs(const World& world, net::Family family);
base::Result<Rendered> render_userspace(const World& world, net::Family family);

// What one full sync has done.
struct Applied {
  backend::SyncReport report;
  bool route_localnet = false;  // was set
};
base::Result<Applied> apply_iptables(const World& world, net::Family family);
base::Result<Applied> apply_nftables(const World& world, net::Family family);
base::Result<Applied> apply_ipvs(const World& world, net::Family family);

// What would change in one chain of a table or, if none is named, in a whole table.
struct PartChange {
  std::string table;
  std::string chain;
  bool created = false;
  bool deleted = false;
  std::vector<std::string> removed;
  std::vector<std::string> added;
};
struct FamilyChange {
  std::vector<PartChange> parts;
  std::vector<std::string> settings;  // "sysctl net/ipv4/...: 0 -> 1"

  bool empty() const { return parts.empty() && settings.empty(); }
};
base::Result<FamilyChange> diff_iptables(const World& world, net::Family family);
base::Result<FamilyChange> diff_nftables(const World& world, net::Family family);
base::Result<FamilyChange> diff_ipvs(const World& world, net::Family family);
base::Result<FamilyChange> diff_userspace(const World& world, net::Family family);

// The functions of one mode.
struct Mode {
  base::Result<Rendered> (*render)(const World&, net::Family);
  base::Result<Applied> (*apply)(const World&, net::Family);  // null: works in the daemon only
  base::Result<FamilyChange> (*diff)(const World&, net::Family);
};
Mode mode_of(const World& world);

// Of mode iptables, and of the rules that modes ipvs and userspace have.
std::string tables_json(const iptables::Tables& tables);
std::string tables_text(const iptables::Tables& tables, net::Family family);
std::vector<PartChange> compare_tables(const iptables::Tables& before,
                                       const iptables::Tables& after);
// What would change if these chains and jumps were wanted.
base::Result<std::vector<PartChange>> compare_chains(
    const std::vector<iptables::FixedChain>& chains, const std::vector<iptables::Jump>& jumps,
    net::Family family);

// Two states, as lines; null if there was nothing, or will be nothing.
PartChange compare(const std::vector<std::string>* before, const std::vector<std::string>* after);

// Would route_localnet be set? Then says so in `changes`.
void add_route_localnet(std::vector<std::string>& changes);

// "a","b"
void append_strings(std::string& out, const std::vector<std::string>& items);

}  // namespace cli
