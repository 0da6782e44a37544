#include <algorithm>

#include "backend/iptables/diff.h"
#include "backend/iptables/tables.h"
#include "cli/commands.h"
#include "codec/json.h"
#include "kernel/netfilter.h"
#include "plan/plan.h"

namespace cli {
namespace {

using base::Result;

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

void append_list(std::string& out, const std::vector<std::string>& items) {
  out += '[';
  for (const auto& item : items) {
    if (&item != &items.front()) out += ',';
    codec::json::append_string(out, item);
  }
  out += ']';
}

void append_tables(std::string& out, const iptables::Tables& tables) {
  for (const auto table : iptables::kTables) {
    if (table != iptables::kTables.front()) out += ',';
    out += "\n    {\"name\":\"" + std::string(iptables::name(table)) + "\",\"chains\":[";
    bool first = true;
    for (const auto& [name, chain] : tables[table]) {
      out += first ? "\n      " : ",\n      ";
      first = false;
      out += "{\"name\":\"" + name + "\",\"policy\":\"" + chain.policy + "\",\"rules\":";
      append_list(out, chain.rules);
      out += '}';
    }
    out += "]}";
  }
}

std::string_view word(plan::Verdict verdict) {
  switch (verdict) {
    case plan::Verdict::Cluster:
      return "cluster";
    case plan::Verdict::Local:
      return "local";
    case plan::Verdict::Reject:
      return "reject";
    case plan::Verdict::Drop:
      return "drop";
  }
  return {};
}

void append_port(std::string& out, const plan::PortPlan& port) {
  out += "{\"name\":";
  codec::json::append_string(out, port.name);
  out += ",\"protocol\":\"" + std::string(net::name(port.protocol)) + "\",\"clusterIP\":\"" +
         port.cluster_ip.str() + "\",\"port\":" + std::to_string(port.port) +
         ",\"nodePort\":" + std::to_string(port.node_port) + ",\"internal\":\"" +
         std::string(word(port.internal_verdict())) + "\",\"external\":\"" +
         std::string(port.externally_accessible ? word(port.external_verdict()) : "none") +
         "\",\"endpoints\":[";
  for (const auto& endpoint : port.endpoints) {
    if (&endpoint != &port.endpoints.front()) out += ',';
    out += "{\"address\":\"" + std::string(endpoint.text.view()) +
           "\",\"local\":" + (endpoint.local ? "true" : "false") + ",\"cluster\":\"" +
           std::string(plan::word(endpoint.cluster)) + "\",\"nodeLocal\":\"" +
           std::string(plan::word(endpoint.node_local)) + "\"}";
  }
  out += "]}";
}

// The decisions behind the rules: for each endpoint whether it is used, for what, and why.
void append_plans(std::string& out, const World& world, const iptables::Settings& settings) {
  const auto context = iptables::plan_context(settings, *world.snapshot);
  bool first = true;
  world.snapshot->services.for_each([&](const auto& entry) {
    for (const auto& port : plan::compile_service(*entry, context).ports) {
      out += first ? "\n    " : ",\n    ";
      first = false;
      append_port(out, port);
    }
  });
}

std::string as_json(const World& world, const Arguments& arguments,
                    const std::vector<iptables::Tables>& tables) {
  std::string out = "{\"mode\":\"iptables\",\"node\":";
  codec::json::append_string(out, world.node.name);
  out += ",\"families\":[";
  for (size_t i = 0; i < arguments.families.size(); ++i) {
    const auto family = arguments.families[i];
    out += i == 0 ? "\n" : ",\n";
    out += "  {\"family\":\"" + std::string(net::name(family)) + "\",\"ports\":[";
    append_plans(out, world, proxyd::iptables_settings(world.config, world.node, family));
    out += "],\"tables\":[";
    append_tables(out, tables[i]);
    out += "]}";
  }
  return out + "]}\n";
}

std::string as_text(const Arguments& arguments, const std::vector<iptables::Tables>& tables) {
  std::string out;
  for (size_t i = 0; i < arguments.families.size(); ++i) {
    const bool v4 = arguments.families[i] == net::Family::V4;
    out += "# " + std::string(net::name(arguments.families[i])) + ", as " +
           (v4 ? "iptables-save" : "ip6tables-save") + " would print it\n";
    out += tables[i].save();
  }
  return out;
}

}  // namespace

int render(const Arguments& arguments) {
  const auto world = load_world(arguments);
  if (!world) return complain(world.error().text), 1;
  std::vector<iptables::Tables> tables;
  for (const auto family : arguments.families) {
    auto made = tables_for(*world, proxyd::iptables_settings(world->config, world->node, family));
    if (!made) return complain(made.error().text), 1;
    tables.push_back(std::move(*made));
  }
  return print(arguments.json ? as_json(*world, arguments, tables) : as_text(arguments, tables),
               world->complete ? 0 : 1);
}

}  // namespace cli
