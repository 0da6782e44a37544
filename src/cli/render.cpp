#include "cli/commands.h"
#include "cli/modes.h"
#include "codec/json.h"
#include "plan/plan.h"

namespace cli {
namespace {

using base::Result;

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
std::string ports_json(const World& world, net::Family family) {
  auto context = proxyd::plan_context(world.config, world.node, family);
  if (world.snapshot->node != nullptr) context.zone = world.snapshot->node->zone;
  std::string out;
  world.snapshot->services.for_each([&](const auto& entry) {
    for (const auto& port : plan::compile_service(*entry, context).ports) {
      out += out.empty() ? "\n    " : ",\n    ";
      append_port(out, port);
    }
  });
  return out;
}

std::string family_json(const World& world, net::Family family, const Rendered& rendered) {
  return "  {\"family\":\"" + std::string(net::name(family)) + "\",\"ports\":[" +
         ports_json(world, family) + "],\"tables\":[" + rendered.tables_json + "]}";
}

std::string whole_json(const World& world, const std::string& families) {
  std::string out = "{\"mode\":\"" + world.config.mode + "\",\"node\":";
  codec::json::append_string(out, world.node.name);
  return out + ",\"families\":[" + families + "]}\n";
}

}  // namespace

int render(const Arguments& arguments) {
  const auto world = load_world(arguments);
  if (!world) return complain(world.error().text), 1;
  std::string out;
  for (const auto family : arguments.families) {
    const auto rendered = mode_of(*world).render(*world, family);
    if (!rendered) return complain(rendered.error().text), 1;
    if (arguments.json) {
      out += (out.empty() ? "\n" : ",\n") + family_json(*world, family, *rendered);
    } else {
      out += rendered->text;
    }
  }
  return print(arguments.json ? whole_json(*world, out) : out, world->complete ? 0 : 1);
}

}  // namespace cli
