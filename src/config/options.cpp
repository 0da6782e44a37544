#include "config/options.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/text.h"
#include "config/aggregate.h"
#include "config/decode.h"
#include "config/flag_parser.h"
#include "config/gates.h"
#include "config/host_port.h"
#include "config/validation.h"
#include "config/version.h"

namespace config {
namespace {

using base::ErrorCode;
using base::Result;

Result<std::string> read_file(const std::string& path) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return base::fail_errno("open " + path);
  std::string text;
  char buffer[16384];
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got == 0) return text;
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) return base::fail_errno("read " + path);
  }
}

// Reads the file; what a strict reader would refuse becomes a notice.
Result<file::Document> load_document(const std::string& path, Options& options) {
  const std::string text = TRY(read_file(path));
  auto decoded = TRY_CONTEXT(file::decode(text), "failed to decode");
  if (!decoded.strict_errors.empty()) {
    const std::string error = "strict decoding error: " + base::join(decoded.strict_errors, ", ");
    options.notices.push_back({.message = "Using lenient decoding as strict decoding failed",
                               .fields = {{"err", error}}});
  }
  return std::move(decoded.document);
}

// Every logging flag that was given wins over the file; its vmodule entries stand in front.
void keep_log_flags(const ParsedFlags& flags, Logging& logging) {
  const Logging& given = flags.target.config.logging;
  const auto keep = [&](std::string_view flag, auto Logging::* member) {
    if (flags.was_given(flag)) logging.*member = given.*member;
  };
  keep("v", &Logging::verbosity);
  keep("logging-format", &Logging::format);
  keep("log-flush-frequency", &Logging::flush_frequency);
  keep("log-text-split-stream", &Logging::text_split_stream);
  keep("log-json-split-stream", &Logging::json_split_stream);
  keep("log-text-info-buffer-size", &Logging::text_info_buffer_size);
  keep("log-json-info-buffer-size", &Logging::json_info_buffer_size);
  logging.vmodule.insert(logging.vmodule.begin(), given.vmodule.begin(), given.vmodule.end());
}

Result<Config> config_from_file(const ParsedFlags& flags, Options& options) {
  Config config = file::to_config(TRY(load_document(flags.target.config_file, options)));
  keep_log_flags(flags, config.logging);
  return config;
}

// The port of a deprecated flag: 0 switches the server off, others fill in for a bare IP.
std::string with_deprecated_port(const std::string& address, int32_t port) {
  return port == 0 ? std::string() : with_default_port(address, port);
}

Config config_from_flags(const ParsedFlags& flags) {
  const FlagTarget& target = flags.target;
  Config config = target.config;
  // Parity: --write-config-to leaves the addresses alone, so a bare IP fails validation with it.
  if (target.write_config_to.empty()) {
    config.healthz_bind_address =
        with_deprecated_port(config.healthz_bind_address, target.healthz_port);
    config.metrics_bind_address =
        with_deprecated_port(config.metrics_bind_address, target.metrics_port);
  }
  const bool ipvs = config.mode == "ipvs";
  config.sync_period = ipvs ? target.ipvs_sync_period : target.iptables_sync_period;
  config.min_sync_period = ipvs ? target.ipvs_min_sync_period : target.iptables_min_sync_period;
  config.min_sync_period_written =
      flags.was_given(ipvs ? "ipvs-min-sync-period" : "iptables-min-sync-period");
  config.ipvs.masquerade_bit = config.iptables.masquerade_bit;
  // Parity: given as "" this is a list with one empty CIDR, which validation refuses.
  if (flags.was_given("cluster-cidr")) {
    for (const std::string_view cidr : base::split(target.cluster_cidr, ',')) {
      config.detect_local.cluster_cidrs.emplace_back(cidr);
    }
  }
  return config;
}

// Defaults that hold for flags and file alike.
void apply_platform_defaults(Options& options) {
  Config& config = options.config;
  if (config.mode.empty()) {
    options.notices.push_back({.message = "Using iptables proxy"});
    config.mode = "iptables";
  }
  if (config.mode == "nftables" && config.node_port_addresses.empty()) {
    config.node_port_addresses = {"primary"};
  }
  if (config.detect_local_mode.empty()) {
    options.notices.push_back({.message = "Defaulting detect-local-mode",
                               .fields = {{"localModeClusterCIDR", "ClusterCIDR"}},
                               .verbosity = 4});
    config.detect_local_mode = "ClusterCIDR";
  }
  options.notices.push_back({.message = "DetectLocalMode",
                             .fields = {{"localMode", config.detect_local_mode}},
                             .verbosity = 2});
}

Result<> apply_hostname(std::string_view flag, Config& config) {
  if (flag.empty()) return {};
  const std::string name = base::lower(base::trim(flag));
  if (name.empty()) return base::fail(ErrorCode::Invalid, "empty hostname-override is invalid");
  config.hostname_override = name;
  return {};
}

// Parity: upstream applies the gates twice and therefore says this twice.
Result<> apply_gates(Options& options) {
  const GateMap& gates = options.config.feature_gates;
  TRY(check_gates(gates));
  for (int round = 0; round < 2; ++round) {
    for (const Gate* gate : outgoing_gates(gates)) {
      const std::string stage = gate->stage == Stage::Ga ? "GA" : "deprecated";
      options.notices.push_back(
          {.message = "Warning: setting " + stage +
                      " feature gate. It will be removed in a future release.",
           .fields = {{"featureGate", gate->name}, {"value", gates.at(std::string(gate->name))}}});
    }
  }
  return {};
}

Result<> complete_common(std::string_view hostname_override, Options& options) {
  apply_platform_defaults(options);
  TRY(apply_hostname(hostname_override, options.config));
  return apply_gates(options);
}

Result<> complete(const ParsedFlags& flags, Options& options) {
  options.config = flags.target.config_file.empty() ? config_from_flags(flags)
                                                    : TRY(config_from_file(flags, options));
  return complete_common(flags.target.hostname_override, options);
}

Result<> check_logging(const Config& config) {
  const auto errors = validate_logging(config);
  if (errors.empty()) return {};
  return base::fail(ErrorCode::Invalid, "initialize logging: " + aggregate(errors));
}

Result<> check_rules(const Config& config) {
  const auto errors = validate(config);
  if (errors.empty()) return {};
  return base::fail(ErrorCode::Invalid, "failed validate: " + aggregate(errors));
}

Result<> complete_and_check(const ParsedFlags& flags, Parsed& parsed) {
  TRY_CONTEXT(complete(flags, parsed.options), "failed complete");
  TRY(check_logging(parsed.options.config));
  parsed.logging_checked = true;
  return check_rules(parsed.options.config);
}

std::vector<std::pair<std::string, std::string>> flag_values(const FlagTarget& target) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Flag& flag : flag_table())
    values.emplace_back(flag.name, flag_text(flag, target));
  std::ranges::sort(values);
  return values;
}

Options options_from(const FlagTarget& target) {
  return {.config = target.config,
          .config_file = target.config_file,
          .write_config_to = target.write_config_to,
          .master = target.master,
          .manifests = target.manifests,
          .tcp_reset_after = target.tcp_reset_after,
          .per_service_metrics = target.per_service_metrics,
          .keep_privileges = target.keep_privileges,
          .cleanup = target.cleanup,
          .init_only = target.init_only,
          .version = target.version.starts_with('v') ? target.version : std::string(kVersion),
          .flags = flag_values(target),
          .notices = {}};
}

// --help, stray words and --version, in the order in which upstream looks at them.
std::optional<Exit> early_exit(const ParsedFlags& flags) {
  if (flags.target.help) return Exit{.code = 0, .out = usage(), .err = {}};
  if (!std::ranges::all_of(flags.positional, &std::string::empty)) {
    std::vector<std::string> quoted;
    quoted.reserve(flags.positional.size());
    for (const std::string& word : flags.positional)
      quoted.push_back(base::quote(word));
    return Exit{.code = 1,
                .out = {},
                .err = "Error: \"kube-proxy\" does not take any arguments, got [" +
                       base::join(quoted, " ") + "]\n"};
  }
  if (flags.target.version == "raw") {
    return Exit{.code = 0, .out = version_info(kVersion) + "\n", .err = {}};
  }
  if (flags.target.version == "true") {
    return Exit{.code = 0, .out = "Kubernetes " + std::string(kVersion) + "\n", .err = {}};
  }
  return std::nullopt;
}

}  // namespace

Parsed parse_command_line(std::span<const std::string> args) {
  Parsed parsed;
  ParsedFlags flags;
  const auto read = parse_flags(args, flags);
  parsed.deprecation_notices = flags.deprecation_notices;
  if (!read) {
    parsed.exit =
        Exit{.code = 1, .out = {}, .err = usage() + "\nError: " + read.error().text + "\n"};
    return parsed;
  }
  parsed.exit = early_exit(flags);
  if (parsed.exit) return parsed;
  parsed.options = options_from(flags.target);
  const auto done = complete_and_check(flags, parsed);
  if (!done) parsed.command_error = done.error().text;
  return parsed;
}

Result<Options> load_for_subcommand(const Overrides& overrides) {
  Options options = options_from(FlagTarget{});
  options.config_file = overrides.config_file;
  file::Document document;
  if (!overrides.config_file.empty()) {
    document = TRY_CONTEXT(load_document(overrides.config_file, options), "failed complete");
  }
  // Before defaulting: the mode decides which section's periods count.
  if (overrides.proxy_mode) document.mode = *overrides.proxy_mode;
  if (overrides.cluster_cidr) document.cluster_cidr = *overrides.cluster_cidr;
  options.config = file::to_config(std::move(document));
  TRY_CONTEXT(complete_common(overrides.hostname_override.value_or(""), options),
              "failed complete");
  TRY(check_logging(options.config));
  TRY(check_rules(options.config));
  return options;
}

klog::Options log_options(const Logging& logging) {
  const bool json = logging.format == "json";
  return {.format = json ? klog::Format::Json : klog::Format::Text,
          .verbosity = static_cast<int>(logging.verbosity),
          .vmodule = logging.vmodule,
          .split_stream = json ? logging.json_split_stream : logging.text_split_stream};
}

}  // namespace config
