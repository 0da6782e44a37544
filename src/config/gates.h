// Feature gates: which names exist, what the user set, and what that means.
//
// The table is the one of Kubernetes v1.36; gate_enabled() in config.h answers for one gate.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"

namespace config {

enum class Stage { Alpha, Beta, Ga, Deprecated };

// "ALPHA", "BETA", "" or "DEPRECATED", as the metric kubernetes_feature_enabled and help name it.
std::string_view name(Stage stage);

struct Gate {
  std::string_view name;
  Stage stage = Stage::Alpha;
  bool by_default = false;
  bool locked = false;  // can only be set to its default
};

// Sorted by name.
std::span<const Gate> known_gates();

// The gate of that name, or nullptr.
const Gate* find_gate(std::string_view name);

struct GateDependency {
  std::string_view gate;
  std::string_view needs;
};
std::span<const GateDependency> gate_dependencies();

using GateMap = std::map<std::string, bool>;

// Set by name, else through AllAlpha or AllBeta, else the default. Unknown gates are off.
bool gate_enabled(const GateMap& set, std::string_view gate);

// Can these be set, all together? Several errors read "[e1, e2]".
base::Result<> check_gates(const GateMap& set);

// The gates among these that will go away (GA and deprecated ones), by name.
std::vector<const Gate*> outgoing_gates(const GateMap& set);

}  // namespace config
