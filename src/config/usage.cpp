// The flag table for people: --help and docs/flags.md.
#include <algorithm>

#include "base/text.h"
#include "config/flag_table.h"
#include "config/gates.h"
#include "config/options.h"

namespace config {
namespace {

constexpr std::string_view kIntroduction =
    R"(kube-proxy directs the traffic of Kubernetes Services to their endpoints on this node.

Usage:
  kube-proxy [flags]                    run on this node until told to stop
  kube-proxy render -f MANIFESTS        print the rules for these objects; nothing is changed
  kube-proxy diff -f MANIFESTS          print what would change on this machine
  kube-proxy apply -f MANIFESTS         make these rules, once, and exit

Each subcommand has a --help of its own.

Examples:
  kube-proxy --config=/var/lib/kube-proxy/config.conf --hostname-override=$(NODE_NAME)
  kube-proxy --kubeconfig=$HOME/.kube/config --proxy-mode=nftables --cluster-cidr=10.244.0.0/16 -v=2
  kube-proxy --manifests=./objects/ --hostname-override=node-1
  kube-proxy --config=config.yaml --write-config-to=resolved.yaml
  kubectl get svc,endpointslices -A -o yaml | kube-proxy render -f -

Flags marked with * count even when --config is given; the file replaces all the others.
)";

// Gates that change what this program does; the others are accepted and mean nothing here.
constexpr std::string_view kGatesInUse[] = {
    "AllowServiceExternalIPs", "ComponentFlagz",   "ComponentStatusz", "LoggingAlphaOptions",
    "LoggingBetaOptions",      "NativeHistograms", "WatchListClient",
};

// Where the explanations begin, and where lines end.
constexpr size_t kTextColumn = 44;
constexpr size_t kWidth = 100;

void append_wrapped(std::string& out, std::string_view text, size_t indent) {
  size_t column = indent;
  bool first = true;
  for (const std::string_view word : base::split(text, ' ')) {
    if (!first && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  out += '\n';
}

// An empty default goes without saying.
std::string shown_default(const Flag& flag) {
  const std::string text = flag_text(flag, FlagTarget{});
  const bool plain = text.empty() || text == "false" || text == "[]" || text == "0s";
  return plain ? "" : text;
}

std::string help_text(const Flag& flag) {
  std::string text(flag.help);
  const std::string value = shown_default(flag);
  if (!value.empty()) text += " (default " + value + ")";
  return text;
}

void append_flag(std::string& out, const Flag& flag) {
  std::string left = flag.kept ? "* " : "  ";
  left += flag.shorthand == 0 ? "    " : std::string("-") + flag.shorthand + ", ";
  left += "--" + std::string(flag.name);
  if (!type_name(flag).empty()) left += " " + std::string(type_name(flag));
  out += left;
  if (left.size() + 2 > kTextColumn) {
    out += '\n';
    out.append(kTextColumn, ' ');
  } else {
    out.append(kTextColumn - left.size(), ' ');
  }
  append_wrapped(out, help_text(flag), kTextColumn);
}

void append_gates(std::string& out) {
  out += "\nFeature gates that change something here:\n";
  for (const std::string_view gate_name : kGatesInUse) {
    const Gate* gate = find_gate(gate_name);
    if (gate == nullptr) continue;
    const std::string_view stage = gate->stage == Stage::Ga ? "GA" : name(gate->stage);
    out += "  " + std::string(gate_name) + "=true|false (" + std::string(stage) +
           " - default=" + (gate->by_default ? "true" : "false") + ")\n";
  }
}

// For a cell of a table.
std::string code(std::string_view text) {
  return text.empty() ? "" : "`" + std::string(text) + "`";
}

void append_row(std::string& out, const Flag& flag) {
  const std::string name = std::string(flag.shorthand == 0 ? "" : "-") +
                           (flag.shorthand == 0 ? "" : std::string(1, flag.shorthand) + ", ") +
                           "--" + std::string(flag.name);
  const std::string_view type = flag.type == FlagType::Bool      ? "bool"
                                : flag.type == FlagType::Version ? "version"
                                                                 : type_name(flag);
  out += "| " + code(name) + " | " + std::string(type) + " | " +
         code(flag_text(flag, FlagTarget{})) + " | " + code(flag.key) + " | " +
         (flag.kept ? "counts" : "ignored") + " | " +
         (flag.deprecated.empty() ? "" : "Deprecated. ") + std::string(flag.help) + " |\n";
}

template <typename Visit>
void for_each_group(bool with_deprecated, Visit visit) {
  for (int i = 0; i < kFlagGroups; ++i) {
    const auto group = static_cast<FlagGroup>(i);
    std::vector<const Flag*> flags;
    for (const Flag& flag : flag_table()) {
      if (flag.group == group && (with_deprecated || flag.deprecated.empty())) {
        flags.push_back(&flag);
      }
    }
    visit(group, flags);
  }
}

}  // namespace

std::string usage() {
  std::string out(kIntroduction);
  for_each_group(false, [&](FlagGroup group, const std::vector<const Flag*>& flags) {
    out += "\n" + std::string(title(group)) + ":\n";
    for (const Flag* flag : flags)
      append_flag(out, *flag);
  });
  append_gates(out);
  return out;
}

std::string flags_markdown() {
  std::string out =
      "# Flags\n\n"
      "Made from the flag table in `src/config/flag_table.cpp`; do not edit by hand.\n\n"
      "The column *with --config* says whether a flag still counts when a configuration file is\n"
      "given. A flag that does not is still checked for its syntax, then silently ignored. `_` in "
      "a\n"
      "flag's name is the same as `-`.\n";
  for_each_group(true, [&](FlagGroup group, const std::vector<const Flag*>& flags) {
    out += "\n## " + std::string(title(group)) +
           "\n\n| flag | type | default | configuration key | with --config | meaning |\n"
           "|---|---|---|---|---|---|\n";
    for (const Flag* flag : flags)
      append_row(out, *flag);
  });
  return out;
}

}  // namespace config
