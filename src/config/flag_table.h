// Every flag of the command line, once: the table drives parsing, --help, docs/flags.md and the
// listing of -v=1.
//
// A flag's default is what a fresh FlagTarget holds in the place that the flag fills.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "config/config.h"

namespace config {

// What flags write to. Most fill the Config that counts when there is no --config; the others are
// worked in later, by rules of their own (options.cpp).
struct FlagTarget {
  Config config;
  std::string config_file;
  std::string write_config_to;
  std::string master;
  std::string manifests;
  Duration tcp_reset_after{};
  bool per_service_metrics = false;
  bool keep_privileges = false;
  std::string hostname_override;
  std::string cluster_cidr;
  bool cleanup = false;
  bool init_only = false;
  bool help = false;
  std::string version = "false";
  int32_t healthz_port = 10256;
  int32_t metrics_port = 10249;
  Duration iptables_sync_period = std::chrono::seconds(30);
  Duration iptables_min_sync_period = std::chrono::seconds(1);
  Duration ipvs_sync_period = std::chrono::seconds(30);
  Duration ipvs_min_sync_period = std::chrono::seconds(1);
  std::string boot_id_file = "/proc/sys/kernel/random/boot_id";
  std::string machine_id_file = "/etc/machine-id,/var/lib/dbus/machine-id";
};

// How the text of a value is read; kinds that keep a string differ in what they refuse.
enum class FlagType : uint8_t {
  Bool,
  Int32,
  Float32,
  Period,
  Level,
  String,
  Strings,
  Ip,
  IpPort,
  Gates,
  Modules,
  Quantity,
  Version,
};

template <typename T>
using PlaceOf = T& (*)(FlagTarget&);
using Place =
    std::variant<PlaceOf<bool>, PlaceOf<int32_t>, PlaceOf<uint32_t>, PlaceOf<float>,
                 PlaceOf<Duration>, PlaceOf<std::string>, PlaceOf<std::vector<std::string>>,
                 PlaceOf<std::map<std::string, bool>>, PlaceOf<std::vector<klog::ModuleLevel>>>;

enum class FlagGroup : uint8_t {
  Action,
  Api,
  Mode,
  Local,
  Iptables,
  Ipvs,
  Userspace,
  Conntrack,
  Serve,
  Log,
  Other
};
inline constexpr int kFlagGroups = 11;

// "Actions", "API server", ...
std::string_view title(FlagGroup group);

struct Flag {
  std::string_view name;
  char shorthand = 0;
  FlagType type = FlagType::String;
  FlagGroup group = FlagGroup::Other;
  bool kept = false;  // still counts when --config is given
  Place place{};
  std::string_view key{};  // of the configuration file, "" if there is none
  std::string_view help{};
  std::string_view deprecated{};  // the advice; such a flag is left out of --help
};

// In the order of --help, group by group.
std::span<const Flag> flag_table();

// By name, where '_' is the same as '-'; nullptr if there is none.
const Flag* find_flag(std::string_view name);
const Flag* find_shorthand(char letter);

// "int32", "duration", ...: "" for booleans, which need no value.
std::string_view type_name(const Flag& flag);

// Reads a value into its place. `repeated`: the flag was given before, so lists grow.
base::Result<> set_flag(const Flag& flag, FlagTarget& target, std::string_view text, bool repeated);

// The value as text: "15m0s", "[a,b]", "A=true".
std::string flag_text(const Flag& flag, const FlagTarget& target);

}  // namespace config
