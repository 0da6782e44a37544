// The command line: from argv to a Config, through the flag table, the configuration file,
// defaulting and validation, in the order and with the messages of kube-proxy v1.36.4.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/value.h"
#include "config/config.h"

namespace config {

// What the command line asks for.
struct Options {
  Config config;
  std::string config_file;           // --config
  std::string write_config_to;       // --write-config-to
  std::string master;                // --master
  std::string manifests;             // --manifests (ours)
  Duration tcp_reset_after{};        // --tcp-reset-after (ours); 0: never
  bool per_service_metrics = false;  // --per-service-metrics (ours)
  bool keep_privileges = false;      // --keep-privileges (ours)
  bool cleanup = false;
  bool init_only = false;
  std::string version;  // reported version, "v1.36.4" unless --version=vX says otherwise

  // Every flag with its final text value, sorted by name, for -v=1 and /flagz.
  std::vector<std::pair<std::string, std::string>> flags;
  // Things to say about how the configuration came about ("Using lenient decoding ...", "Using
  // iptables proxy", gates). Upstream says them before its logging is set up, so always as text.
  struct Notice {
    klog::Severity severity = klog::Severity::Info;
    std::string message;
    klog::Fields fields{};
    int verbosity = 0;
  };
  std::vector<Notice> notices;
};

// How reading the command line ended when there is nothing to run: print `out` on stdout and `err`
// on stderr, then exit with `code`.
struct Exit {
  int code = 0;
  std::string out;
  std::string err;
};

struct Parsed {
  Options options;
  std::optional<Exit> exit;         // set: do that and nothing else
  std::string deprecation_notices;  // lines for stderr
  // Set when completing failed after the command line itself was fine: log "command failed" with
  // this text ("failed complete: ...", "failed validate: ...") and exit 1.
  std::optional<std::string> command_error;
  // The logging section is in order: set up the log with it before telling command_error. Errors
  // of earlier stages are told as text, whatever the format asked for.
  bool logging_checked = false;
};

// The daemon's command line (argv without the program name).
Parsed parse_command_line(std::span<const std::string> args);

// The settings of a subcommand: --config, --proxy-mode, --hostname-override, --cluster-cidr, where,
// unlike for the daemon, a flag that is given wins over the file.
struct Overrides {
  std::string config_file{};
  std::optional<std::string> proxy_mode{};
  std::optional<std::string> hostname_override{};
  std::optional<std::string> cluster_cidr{};
};
base::Result<Options> load_for_subcommand(const Overrides& overrides);

// The configuration as --write-config-to writes it (v1alpha1 YAML, keys sorted).
std::string write_yaml(const Config& config);

// The same as a tree, members in upstream's order (kind, apiVersion, ...): what /configz shows.
codec::Value to_document(const Config& config);

// How to set up the log for this configuration. A format that does not exist gives text.
klog::Options log_options(const Logging& logging);

// Usage text of --help, made from the flag table; and docs/flags.md, made from the same table.
std::string usage();
std::string flags_markdown();

}  // namespace config
