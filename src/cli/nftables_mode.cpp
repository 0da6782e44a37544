#include <map>

#include "backend/nftables/contents.h"
#include "backend/nftables/proxier.h"
#include "backend/nftables/read.h"
#include "backend/nftables/text.h"
#include "cli/modes.h"
#include "daemon/kernel_version.h"
#include "daemon/node_setup.h"

namespace cli {
namespace {

using base::Result;

nftables::Settings settings_of(const World& world, net::Family family) {
  return proxyd::nftables_settings(world.config, world.node, family);
}

nftables::Image image_of(const World& world, const nftables::Settings& settings) {
  std::vector<std::string> warnings;
  const auto contents = nftables::plan_contents(
      nftables::basis_of(settings, world.snapshot, warnings), settings.options);
  for (const auto& warning : warnings)
    complain(warning);
  return nftables::image_of(contents, settings.options);
}

// "ip kube-proxy", as nft calls it.
std::string table_name(net::Family family) {
  return std::string(family == net::Family::V4 ? "ip " : "ip6 ") + nftables::kTable;
}

void append_chain(std::string& out, const nftables::Chain& chain, net::Family family) {
  out += "{\"name\":\"" + chain.name + "\"";
  if (chain.hook) {
    out += ",\"type\":\"" + std::string(chain.hook->type) + "\",\"hook\":\"" +
           std::string(chain.hook->point) +
           "\",\"priority\":" + std::to_string(chain.hook->priority);
  }
  std::vector<std::string> rules;
  for (const auto& rule : chain.rules)
    rules.push_back(nftables::rule_text(rule, family));
  out += ",\"rules\":[";
  append_strings(out, rules);
  out += "]}";
}

std::string chains_json(const nftables::Listing& listing) {
  std::string out;
  const auto append = [&](const nftables::Chain& chain) {
    out += out.empty() ? "\n      " : ",\n      ";
    append_chain(out, chain, listing.options.family);
  };
  for (const auto& chain : nftables::static_chains(listing.options))
    append(chain);
  for (const auto& target : listing.targets)
    append(nftables::chain_of(target, listing.options));
  return out;
}

std::string sets_json(const nftables::Listing& listing) {
  std::map<nftables::SetId, std::vector<std::string>> elements;
  for (const auto& element : listing.elements)
    elements[element.set].push_back(nftables::element_text(element, listing.options.family));
  std::string out;
  for (const auto set : nftables::sets_of(listing.options)) {
    out += out.empty() ? "\n      " : ",\n      ";
    out += "{\"name\":\"" + std::string(nftables::name(set)) + "\",\"elements\":[";
    append_strings(out, elements[set]);
    out += "]}";
  }
  return out;
}

// What the kernel has, as lines.
Result<std::vector<std::string>> kernel_lines(const nftables::Listing& wanted) {
  auto lines = nftables::read_lines(wanted);
  if (!lines && lines.error().code == base::ErrorCode::Permission)
    return base::fail(lines.error().code,
                      lines.error().text + "; run as root, or with CAP_NET_ADMIN");
  return lines;
}

}  // namespace

Result<Rendered> render_nftables(const World& world, net::Family family) {
  const auto image = image_of(world, settings_of(world, family));
  const std::string table = table_name(family);
  return Rendered{.text = "# " + std::string(net::name(family)) + ", as nft list table " + table +
                          " would print it\n" + nftables::list_table(image.listing),
                  .tables_json = "\n    {\"name\":\"" + table + "\",\"sets\":[" +
                                 sets_json(image.listing) + "],\"chains\":[" +
                                 chains_json(image.listing) + "]}"};
}

Result<Applied> apply_nftables(const World& world, net::Family family) {
  TRY(proxyd::check_nftables_kernel());
  const auto settings = settings_of(world, family);
  const auto image = image_of(world, settings);
  // The daemon hears of what others do. Here somebody may have been at it before.
  const bool rewrite = TRY(kernel_lines(image.listing)) != nftables::lines_of(image.listing);
  auto proxier =
      TRY(nftables::Proxier::open(settings, std::make_shared<kernel::nf_tables::Listeners>()));
  Applied applied;
  if (settings.options.localhost_node_ports)
    applied.route_localnet = TRY(proxyd::allow_localhost_node_ports());
  applied.report = TRY(
      proxier->sync({.snapshot = world.snapshot, .dirty = {}, .full = true, .rewrite = rewrite}));
  return applied;
}

Result<FamilyChange> diff_nftables(const World& world, net::Family family) {
  const auto settings = settings_of(world, family);
  const auto image = image_of(world, settings);
  const auto before = TRY(kernel_lines(image.listing));
  const auto after = nftables::lines_of(image.listing);
  FamilyChange change;
  if (settings.options.localhost_node_ports) add_route_localnet(change.settings);
  if (before == after) return change;
  change.parts.push_back(compare(before.empty() ? nullptr : &before, &after));
  change.parts.back().table = table_name(family);
  return change;
}

}  // namespace cli
