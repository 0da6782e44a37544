#include "config/gates.h"

#include <algorithm>
#include <optional>

#include "config/aggregate.h"

namespace config {
namespace {

std::optional<bool> lookup(const GateMap& set, std::string_view name) {
  const auto at = set.find(std::string(name));
  return at == set.end() ? std::nullopt : std::optional(at->second);
}

std::string_view bool_text(bool value) { return value ? "true" : "false"; }

std::optional<std::string> setting_error(std::string_view name, bool value) {
  const Gate* gate = find_gate(name);
  if (gate == nullptr) return "unrecognized feature gate: " + std::string(name);
  if (!gate->locked || gate->by_default == value) return std::nullopt;
  return "cannot set feature gate " + std::string(name) + " to " + std::string(bool_text(value)) +
         ", feature is locked to " + std::string(bool_text(gate->by_default));
}

// "[Y Z]": the gates that `gate` needs and that are off; empty if there are none.
std::string missing_needs(const GateMap& set, std::string_view gate) {
  std::string missing;
  for (const GateDependency& dependency : gate_dependencies()) {
    if (dependency.gate != gate || gate_enabled(set, dependency.needs)) continue;
    missing += (missing.empty() ? "[" : " ") + std::string(dependency.needs);
  }
  return missing.empty() ? missing : missing + "]";
}

std::vector<std::string> dependency_errors(const GateMap& set) {
  std::vector<std::string> errors;
  for (const Gate& gate : known_gates()) {
    if (!gate_enabled(set, gate.name)) continue;
    const std::string missing = missing_needs(set, gate.name);
    if (missing.empty()) continue;
    errors.push_back(std::string(gate.name) +
                     " is enabled, but depends on features that are disabled: " + missing);
  }
  return errors;
}

}  // namespace

std::string_view name(Stage stage) {
  switch (stage) {
    case Stage::Alpha:
      return "ALPHA";
    case Stage::Beta:
      return "BETA";
    case Stage::Ga:
      return "";
    case Stage::Deprecated:
      return "DEPRECATED";
  }
  return "";
}

const Gate* find_gate(std::string_view name) {
  const auto gates = known_gates();
  const auto at = std::ranges::lower_bound(gates, name, {}, &Gate::name);
  return at != gates.end() && at->name == name ? &*at : nullptr;
}

bool gate_enabled(const GateMap& set, std::string_view name) {
  if (const auto value = lookup(set, name)) return *value;
  const Gate* gate = find_gate(name);
  if (gate == nullptr) return false;
  std::optional<bool> all;
  if (gate->stage == Stage::Alpha) all = lookup(set, "AllAlpha");
  if (gate->stage == Stage::Beta) all = lookup(set, "AllBeta");
  return all.value_or(gate->by_default);
}

bool gate_enabled(const Config& config, std::string_view gate) {
  return gate_enabled(config.feature_gates, gate);
}

base::Result<> check_gates(const GateMap& set) {
  std::vector<std::string> errors;
  for (const auto& [name, value] : set) {
    if (auto error = setting_error(name, value)) errors.push_back(*std::move(error));
  }
  if (errors.empty()) errors = dependency_errors(set);
  if (errors.empty()) return {};
  return base::fail(base::ErrorCode::Invalid, aggregate(errors));
}

std::vector<const Gate*> outgoing_gates(const GateMap& set) {
  std::vector<const Gate*> outgoing;
  for (const auto& [name, value] : set) {
    const Gate* gate = find_gate(name);
    if (gate == nullptr) continue;
    if (gate->stage == Stage::Ga || gate->stage == Stage::Deprecated) outgoing.push_back(gate);
  }
  return outgoing;
}

}  // namespace config
