#include "cli/commands.h"
#include "cli/modes.h"
#include "daemon/node_setup.h"

namespace cli {
namespace {

using base::Result;

// "2 chains and 5 rules", and in mode nftables elements.
std::string amount(const backend::SyncReport& report, const std::string& mode) {
  const std::string chains = std::to_string(report.chains) + " chains";
  const std::string rules = std::to_string(report.rules) + " rules";
  if (mode != "nftables") return chains + " and " + rules;
  return chains + ", " + rules + " and " + std::to_string(report.elements) + " elements";
}

std::string as_text(net::Family family, const Applied& applied, const std::string& mode) {
  const std::string name(net::name(family));
  const auto& report = applied.report;
  const bool idle = report.chains == 0 && report.rules == 0 && report.elements == 0;
  std::string out =
      name + (idle ? ": nothing to change\n" : ": " + amount(report, mode) + " written\n");
  if (applied.route_localnet) out += name + ": route_localnet set to 1\n";
  return out;
}

std::string as_json(net::Family family, const Applied& applied, const std::string& mode) {
  std::string out = "{\"family\":\"" + std::string(net::name(family)) +
                    "\",\"chains\":" + std::to_string(applied.report.chains) +
                    ",\"rules\":" + std::to_string(applied.report.rules);
  if (mode == "nftables") out += ",\"elements\":" + std::to_string(applied.report.elements);
  return out + ",\"routeLocalnetSet\":" + (applied.route_localnet ? "true" : "false") + "}";
}

}  // namespace

int apply(const Arguments& arguments) {
  const auto world = load_world(arguments);
  if (!world) return complain(world.error().text), 1;
  const std::string& mode = world->config.mode;
  const auto apply_family = mode == "nftables" ? &apply_nftables : &apply_iptables;
  const auto support = proxyd::probe_families(mode);
  std::string out;
  int status = world->complete ? 0 : 1;
  size_t served = 0;
  for (const auto family : arguments.families) {
    if (!(family == net::Family::V4 ? support.v4 : support.v6)) continue;
    ++served;
    const auto applied = apply_family(*world, family);
    if (!applied) {
      complain(std::string(net::name(family)) + ": " + applied.error().text);
      status = 1;
      continue;
    }
    for (const auto& warning : applied->report.warnings)
      complain(warning);
    out += arguments.json ? (out.empty() ? "\n  " : ",\n  ") + as_json(family, *applied, mode)
                          : as_text(family, *applied, mode);
  }
  for (const auto& notice : support.notices)
    complain(notice.str());
  if (served == 0) status = 1;
  return print(arguments.json ? "{\"mode\":\"" + mode + "\",\"families\":[" + out + "]}\n" : out,
               status);
}

}  // namespace cli
