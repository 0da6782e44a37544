#include "backend/iptables/chains.h"
#include "backend/iptables/commit.h"
#include "backend/userspace/image.h"
#include "backend/userspace/settings.h"
#include "cli/modes.h"
#include "daemon/host_address.h"

namespace cli {
namespace {

using base::Result;

// How long connections drain is no matter of rules.
userspace::Settings settings_of(const World& world, const net::IpAddr& host) {
  return proxyd::userspace_settings(world.config, world.node, host, {});
}

}  // namespace

// The manifests may be those of another node, whose interfaces nobody knows here: its IP stands in for them.
Result<Rendered> render_userspace(const World& world, net::Family family) {
  const net::IpAddr& host = world.node.ips[static_cast<size_t>(family)];
  const auto chains = userspace::chains_of(settings_of(world, host), *world.snapshot);
  iptables::Tables tables = iptables::Tables::empty();
  TRY(tables.apply(iptables::chains_missing(chains, userspace::jumps(), {}).str()));
  return Rendered{.text = tables_text(tables, family), .tables_json = tables_json(tables)};
}

Result<FamilyChange> diff_userspace(const World& world, net::Family family) {
  const auto host = TRY_CONTEXT(proxyd::host_address(world.config, world.node, family),
                                "failed to select a host interface");
  const std::string nat = TRY(iptables::Programs(family).save(iptables::Table::Nat));
  const auto chains = userspace::chains_of(settings_of(world, host), *world.snapshot,
                                           userspace::AdoptedPorts::parse(nat));
  return FamilyChange{TRY(compare_chains(chains, userspace::jumps(), family)), {}};
}

}  // namespace cli
