#include "cli/commands.h"
#include "daemon/node_setup.h"

namespace cli {
namespace {

using base::Result;

struct Outcome {
  net::Family family;
  backend::SyncReport report;
  bool route_localnet = false;  // was set
};

Result<Outcome> apply_family(const World& world, net::Family family) {
  iptables::Proxier proxier(proxyd::iptables_settings(world.config, world.node, family));
  for (const auto& notice : proxier.probe())
    complain(notice.err.empty() ? notice.message : notice.message + ": " + notice.err);
  Outcome outcome{family, {}, false};
  outcome.route_localnet = TRY(proxier.allow_localhost());
  outcome.report = TRY(proxier.sync({world.snapshot, {}, true}));
  for (const auto& warning : outcome.report.warnings)
    complain(warning);
  return outcome;
}

std::string as_text(const Outcome& outcome) {
  std::string out(net::name(outcome.family));
  if (outcome.report.chains == 0 && outcome.report.rules == 0) {
    out += ": nothing to change\n";
  } else {
    out += ": " + std::to_string(outcome.report.chains) + " chains and " +
           std::to_string(outcome.report.rules) + " rules written\n";
  }
  if (outcome.route_localnet)
    out += std::string(net::name(outcome.family)) + ": route_localnet set to 1\n";
  return out;
}

std::string as_json(const Outcome& outcome) {
  return "{\"family\":\"" + std::string(net::name(outcome.family)) +
         "\",\"chains\":" + std::to_string(outcome.report.chains) +
         ",\"rules\":" + std::to_string(outcome.report.rules) +
         ",\"routeLocalnetSet\":" + (outcome.route_localnet ? "true" : "false") + "}";
}

}  // namespace

int apply(const Arguments& arguments) {
  const auto world = load_world(arguments);
  if (!world) return complain(world.error().text), 1;
  const auto support = proxyd::probe_families();
  std::string out;
  int status = world->complete ? 0 : 1;
  size_t served = 0;
  for (const auto family : arguments.families) {
    if (!(family == net::Family::V4 ? support.v4 : support.v6)) continue;
    ++served;
    const auto outcome = apply_family(*world, family);
    if (!outcome) {
      complain(std::string(net::name(family)) + ": " + outcome.error().text);
      status = 1;
    } else if (arguments.json) {
      out += (out.empty() ? "\n  " : ",\n  ") + as_json(*outcome);
    } else {
      out += as_text(*outcome);
    }
  }
  for (const auto& notice : support.notices)
    complain(notice.str());
  if (served == 0) status = 1;
  return print(arguments.json ? "{\"mode\":\"iptables\",\"families\":[" + out + "]}\n" : out,
               status);
}

}  // namespace cli
