#include <algorithm>

#include "cli/commands.h"
#include "cli/modes.h"
#include "daemon/node_setup.h"

namespace cli {
namespace {

using base::Result;

constexpr std::string_view kDaemonOnly =
    "mode userspace works only while the daemon runs: its rules lead to sockets of the process";

struct Amount {
  std::string_view of;
  size_t count = 0;
};

// What a sync of this mode counts.
std::vector<Amount> amounts(const backend::SyncReport& report, const std::string& mode) {
  std::vector<Amount> all{{"chains", report.chains}, {"rules", report.rules}};
  if (mode != "iptables") all.push_back({"elements", report.elements});
  if (mode == "ipvs") {
    all.push_back({"servers", report.servers});
    all.push_back({"addresses", report.addresses});
  }
  return all;
}

// "2 chains, 5 rules and 3 elements"
std::string in_words(const std::vector<Amount>& all) {
  std::string out;
  for (const auto& amount : all) {
    if (&amount != &all.front()) out += &amount == &all.back() ? " and " : ", ";
    out += std::to_string(amount.count) + " " + std::string(amount.of);
  }
  return out;
}

std::string as_text(net::Family family, const Applied& applied, const std::string& mode) {
  const std::string name(net::name(family));
  const auto all = amounts(applied.report, mode);
  const bool idle = std::ranges::all_of(all, [](const Amount& one) { return one.count == 0; });
  std::string out = name + (idle ? ": nothing to change\n" : ": " + in_words(all) + " written\n");
  if (applied.route_localnet) out += name + ": route_localnet set to 1\n";
  return out;
}

std::string as_json(net::Family family, const Applied& applied, const std::string& mode) {
  std::string out = "{\"family\":\"" + std::string(net::name(family)) + "\"";
  for (const auto& [of, count] : amounts(applied.report, mode))
    out += ",\"" + std::string(of) + "\":" + std::to_string(count);
  return out + ",\"routeLocalnetSet\":" + (applied.route_localnet ? "true" : "false") + "}";
}

}  // namespace

int apply(const Arguments& arguments) {
  const auto world = load_world(arguments);
  if (!world) return complain(world.error().text), 1;
  const auto apply_mode = mode_of(*world).apply;
  if (apply_mode == nullptr) return complain(kDaemonOnly), 1;
  const std::string& mode = world->config.mode;
  const auto support = proxyd::probe_families(mode);
  std::string out;
  int status = world->complete ? 0 : 1;
  size_t served = 0;
  for (const auto family : arguments.families) {
    if (!(family == net::Family::V4 ? support.v4 : support.v6)) continue;
    ++served;
    const auto applied = apply_mode(*world, family);
    if (!applied) {
      complain(std::string(net::name(family)) + ": " + applied.error().text);
      status = 1;
      continue;
    }
    for (const auto& warning : applied->report.warnings)
      complain(warning);
    for (const auto& problem : applied->report.problems)
      complain("Service " + problem.service.str() + ": " + problem.text);
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
