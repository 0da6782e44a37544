// What render, apply and diff have in common: their flags, and reading configuration and manifests.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/options.h"
#include "daemon/node_facts.h"
#include "model/store.h"

namespace cli {

struct Arguments {
  std::string manifests;  // -f
  config::Overrides overrides;
  std::vector<net::Family> families{net::Family::V4, net::Family::V6};
  bool json = false;  // -o json
  bool help = false;
};

// Errors name the flag and say what it takes.
base::Result<Arguments> parse_arguments(std::span<const std::string> args);

// Help text of one subcommand.
std::string help_text(std::string_view name);

// Everything a one-shot command works on.
struct World {
  config::Config config;
  proxyd::NodeFacts node;
  model::SnapshotPtr snapshot;
  bool complete = true;  // false: some manifest was broken (told on stderr) and is left out
};
base::Result<World> load_world(const Arguments& arguments);

// One line on stderr: "kube-proxy: TEXT".
void complain(std::string_view text);

// Writes to stdout and returns `status`; 1, with a complaint, if that fails (a full disk).
int print(std::string_view text, int status = 0);

}  // namespace cli
