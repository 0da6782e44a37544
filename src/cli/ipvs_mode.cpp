#include <net/if.h>

#include <set>

#include "backend/iptables/commit.h"
#include "backend/ipvs/node_addresses.h"
#include "backend/ipvs/proxier.h"
#include "backend/ipvs/rules.h"
#include "backend/ipvs/text.h"
#include "base/text.h"
#include "cli/modes.h"
#include "daemon/node_setup.h"
#include "kernel/addresses.h"
#include "kernel/sysctl.h"

namespace cli {
namespace {

using base::Result;

ipvs::Settings settings_of(const World& world, net::Family family) {
  auto settings = proxyd::ipvs_settings(world.config, world.node, family);
  settings.options.random_fully = iptables::Programs(family).random_fully();
  return settings;
}

// All that would be in the kernel.
struct Image {
  ipvs::Observed state;
  std::vector<iptables::FixedChain> chains;
};

Result<Image> image_of(const World& world, const ipvs::Settings& settings) {
  std::vector<kernel::DeviceAddress> addresses;
  for (const auto& address : TRY(kernel::interface_addresses())) {
    if (address.ip.family() == settings.options.family)
      addresses.push_back({::if_nametoindex(address.interface.c_str()), address.ip});
  }
  const auto node =
      ipvs::node_addresses(addresses, ::if_nametoindex(ipvs::kDevice), settings.node_port_cidrs);
  const auto ledger = ipvs::ledger_of(settings, *world.snapshot, node);
  return Image{ledger.everything(),
               ipvs::chains(settings.options, ipvs::filled_sets(ledger), ledger.guards())};
}

// A kind of state that has a tool of its own to show it.
struct Part {
  const char* tool;
  std::string text;
};

std::vector<Part> parts_of(const ipvs::Observed& state, net::Family family) {
  return {{"ipvsadm-save -n", ipvs::servers_text(state)},
          {"ipset save", ipvs::sets_text(state, family)},
          {"ip -o addr show dev kube-ipvs0", ipvs::addresses_text(state)}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const auto line : base::split(text, '\n')) {
    if (!line.empty()) lines.emplace_back(line);
  }
  return lines;
}

std::vector<std::string> sysctl_changes(const config::Config& config) {
  std::vector<std::string> changes;
  for (const auto& [name, value] :
       proxyd::ipvs_sysctls(config.ipvs.strict_arp, proxyd::ConnectionReuse::NotNeeded)) {
    const auto now = kernel::read_sysctl(name);
    if (now && *now != value)
      changes.push_back("sysctl " + name + ": " + std::to_string(*now) + " -> " +
                        std::to_string(value));
  }
  return changes;
}

// Leaves out the virtual servers that a sync leaves alone.
ipvs::Observed without_others(ipvs::Observed observed, const ipvs::Observed& wanted,
                              const ipvs::Settings& settings) {
  std::set<kernel::ServerKey> ours;
  for (const auto& one : wanted.servers)
    ours.insert(one.server.key);
  std::erase_if(observed.servers, [&](const ipvs::Observed::Server& one) {
    return !ours.contains(one.server.key) && settings.is_excluded(one.server.key.ip);
  });
  return observed;
}

Result<> check(const ipvs::Settings& settings) {
  TRY_CONTEXT(ipvs::check_kernel(settings.options.scheduler, {settings.options.family}),
              "can't use the IPVS proxier");
  return {};
}

}  // namespace

Result<Rendered> render_ipvs(const World& world, net::Family family) {
  const auto image = TRY(image_of(world, settings_of(world, family)));
  iptables::Tables tables = iptables::Tables::empty();
  TRY(tables.apply(ipvs::rules_missing(image.chains, {}).str()));
  const std::string name(net::name(family));
  Rendered rendered;
  for (const auto& part : parts_of(image.state, family)) {
    rendered.text += "# " + name + ", as " + part.tool + " would print it\n" + part.text;
    rendered.tables_json += "\n    {\"name\":\"" + std::string(part.tool) + "\",\"lines\":[";
    append_strings(rendered.tables_json, lines_of(part.text));
    rendered.tables_json += "]},";
  }
  rendered.text += tables_text(tables, family);
  rendered.tables_json += tables_json(tables);
  return rendered;
}

Result<Applied> apply_ipvs(const World& world, net::Family family) {
  const auto settings = settings_of(world, family);
  TRY(check(settings));
  TRY(proxyd::set_up_ipvs(world.config.ipvs));
  proxyd::set_ipvs_timeouts(world.config.ipvs);
  auto proxier = TRY(ipvs::Proxier::open(settings));
  Applied applied;
  applied.report = TRY(proxier->sync({.snapshot = world.snapshot, .dirty = {}, .full = true}));
  return applied;
}

Result<FamilyChange> diff_ipvs(const World& world, net::Family family) {
  const auto settings = settings_of(world, family);
  TRY(check(settings));
  const auto image = TRY(image_of(world, settings));
  auto proxier = TRY(ipvs::Proxier::open(settings));
  const auto now = parts_of(without_others(TRY(proxier->observe()), image.state, settings), family);
  const auto wanted = parts_of(image.state, family);
  FamilyChange change{.parts = {}, .settings = sysctl_changes(world.config)};
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto before = lines_of(now[i].text);
    const auto after = lines_of(wanted[i].text);
    if (before == after) continue;
    change.parts.push_back(compare(&before, &after));
    change.parts.back().table = wanted[i].tool;
  }
  for (auto& part : TRY(compare_chains(image.chains, ipvs::jumps(), family)))
    change.parts.push_back(std::move(part));
  return change;
}

}  // namespace cli
