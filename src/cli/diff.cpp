#include <map>

#include "cli/commands.h"
#include "cli/modes.h"
#include "codec/json.h"
#include "daemon/node_setup.h"
#include "kernel/sysctl.h"

namespace cli {
namespace {

using base::Result;

// The lines of `a` that `b` has not, in order; a line that is there twice counts twice.
std::vector<std::string> without(const std::vector<std::string>& a,
                                 const std::vector<std::string>& b) {
  std::map<std::string_view, size_t> left;
  for (const auto& line : b)
    ++left[line];
  std::vector<std::string> out;
  for (const auto& line : a) {
    auto found = left.find(line);
    if (found == left.end() || found->second == 0) {
      out.push_back(line);
    } else {
      --found->second;
    }
  }
  return out;
}

std::string heading(const PartChange& change) {
  std::string out = change.table;
  if (!change.chain.empty()) out += " " + change.chain;
  if (change.created) out += " (new)";
  if (change.deleted) out += " (deleted)";
  if (!change.created && !change.deleted && change.removed.empty() && change.added.empty()) {
    out += " (the same rules in another order)";
  }
  return out;
}

std::string as_text(net::Family family, const FamilyChange& change) {
  std::string out = "# " + std::string(net::name(family));
  if (change.empty()) return out + ": nothing would change\n";
  out += "\n";
  for (const auto& setting : change.settings)
    out += "! " + setting + "\n";
  for (const auto& part : change.parts) {
    out += "@@ " + heading(part) + "\n";
    for (const auto& line : part.removed)
      out += "-" + line + "\n";
    for (const auto& line : part.added)
      out += "+" + line + "\n";
  }
  return out;
}

std::string as_json(net::Family family, const FamilyChange& change, const std::string& mode) {
  std::string out = "{\"family\":\"" + std::string(net::name(family)) + "\",\"settings\":[";
  append_strings(out, change.settings);
  const bool chains = mode == "iptables" || mode == "userspace";
  out += chains ? "],\"chains\":[" : "],\"tables\":[";
  for (const auto& part : change.parts) {
    out += &part == &change.parts.front() ? "\n    " : ",\n    ";
    out += "{\"table\":\"" + part.table + "\"";
    if (!part.chain.empty()) out += ",\"chain\":\"" + part.chain + "\"";
    out += std::string(",\"state\":\"") +
           (part.created   ? "new"
            : part.deleted ? "deleted"
                           : "changed") +
           "\",\"removed\":[";
    append_strings(out, part.removed);
    out += "],\"added\":[";
    append_strings(out, part.added);
    out += "]}";
  }
  return out + "]}";
}

}  // namespace

Mode mode_of(const World& world) {
  if (world.config.mode == "nftables") return {&render_nftables, &apply_nftables, &diff_nftables};
  if (world.config.mode == "ipvs") return {&render_ipvs, &apply_ipvs, &diff_ipvs};
  if (world.config.mode == "userspace") return {&render_userspace, nullptr, &diff_userspace};
  return {&render_iptables, &apply_iptables, &diff_iptables};
}

PartChange compare(const std::vector<std::string>* before, const std::vector<std::string>* after) {
  static const std::vector<std::string> kNone;
  const auto& old_lines = before != nullptr ? *before : kNone;
  const auto& new_lines = after != nullptr ? *after : kNone;
  PartChange change;
  change.created = before == nullptr;
  change.deleted = after == nullptr;
  change.removed = without(old_lines, new_lines);
  change.added = without(new_lines, old_lines);
  return change;
}

void add_route_localnet(std::vector<std::string>& changes) {
  const auto now = kernel::read_sysctl(proxyd::kRouteLocalnet);
  if (now && *now != 1) {
    changes.push_back(std::string("sysctl ") + proxyd::kRouteLocalnet + ": " +
                      std::to_string(*now) + " -> 1");
  }
}

void append_strings(std::string& out, const std::vector<std::string>& items) {
  for (const auto& item : items) {
    if (&item != &items.front()) out += ',';
    codec::json::append_string(out, item);
  }
}

int diff(const Arguments& arguments) {
  constexpr int kTrouble = 2;
  const auto world = load_world(arguments);
  if (!world) return complain(world.error().text), kTrouble;
  const std::string& mode = world->config.mode;
  const auto support = proxyd::probe_families(mode);
  std::string out;
  int status = 0;
  bool trouble = !world->complete;
  size_t served = 0;
  for (const auto& notice : support.notices)
    complain(notice.str());
  for (const auto family : arguments.families) {
    if (!(family == net::Family::V4 ? support.v4 : support.v6)) continue;
    ++served;
    const auto change = mode_of(*world).diff(*world, family);
    if (!change) {
      complain(std::string(net::name(family)) + ": " + change.error().text);
      trouble = true;
      continue;
    }
    if (!change->empty()) status = 1;
    out += arguments.json ? (out.empty() ? "\n  " : ",\n  ") + as_json(family, *change, mode)
                          : as_text(family, *change);
  }
  out = arguments.json ? "{\"mode\":\"" + mode + "\",\"families\":[" + out + "]}\n" : out;
  return print(out, trouble || served == 0 ? kTrouble : status);
}

}  // namespace cli
