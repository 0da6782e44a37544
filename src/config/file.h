// KubeProxyConfiguration v1alpha1 as it stands in a file: one member per key, before defaulting.
//
// The schema (schema.h) describes these structs once, for reading and for writing. What is absent
// keeps its zero; where absent and zero differ, the member is optional.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace config::file {

inline constexpr std::string_view kApiVersion = "kubeproxy.config.k8s.io/v1alpha1";
inline constexpr std::string_view kKind = "KubeProxyConfiguration";

struct ClientConnection {
  std::string kubeconfig;
  std::string accept_content_types;
  std::string content_type;
  float qps = 0;
  int32_t burst = 0;
};

// A duration that may also be a whole number of nanoseconds.
struct FlexibleDuration {
  Duration value{};
};

struct Quantity {
  std::string text = "0";
};

struct LogModule {
  std::string file_pattern;
  uint32_t verbosity = 0;
};

struct LogRouting {
  bool split_stream = false;
  Quantity info_buffer_size;
};

struct LogOptions {
  LogRouting text;
  LogRouting json;
};

struct Logging {
  std::string format;
  FlexibleDuration flush_frequency;
  uint32_t verbosity = 0;
  std::vector<LogModule> vmodule;
  LogOptions options;
};

struct Iptables {
  std::optional<int32_t> masquerade_bit;
  bool masquerade_all = false;
  std::optional<bool> localhost_node_ports;
  Duration sync_period{};
  Duration min_sync_period{};
};

struct Ipvs {
  Duration sync_period{};
  Duration min_sync_period{};
  std::string scheduler;
  std::optional<std::vector<std::string>> exclude_cidrs;
  bool strict_arp = false;
  Duration tcp_timeout{};
  Duration tcp_fin_timeout{};
  Duration udp_timeout{};
};

struct Nftables {
  std::optional<int32_t> masquerade_bit;
  bool masquerade_all = false;
  Duration sync_period{};
  Duration min_sync_period{};
};

struct DetectLocal {
  std::string bridge_interface;
  std::string interface_name_prefix;
};

struct Conntrack {
  std::optional<int32_t> max_per_core;
  std::optional<int32_t> min;
  std::optional<Duration> tcp_established_timeout;
  std::optional<Duration> tcp_close_wait_timeout;
  bool tcp_be_liberal = false;
  Duration udp_timeout{};
  Duration udp_stream_timeout{};
};

struct Document {
  std::string kind;
  std::string api_version;
  std::map<std::string, bool> feature_gates;
  ClientConnection client_connection;
  Logging logging;
  std::string hostname_override;
  std::string bind_address;
  std::string healthz_bind_address;
  std::string metrics_bind_address;
  bool bind_address_hard_fail = false;
  bool enable_profiling = false;
  std::string show_hidden_metrics_for_version;
  std::string mode;
  Iptables iptables;
  Ipvs ipvs;
  Nftables nftables;
  Winkernel winkernel;
  std::string detect_local_mode;
  DetectLocal detect_local;
  std::string cluster_cidr;
  std::optional<std::vector<std::string>> node_port_addresses;
  std::optional<int32_t> oom_score_adj;
  Conntrack conntrack;
  Duration config_sync_period{};
  std::string port_range;
  std::optional<Duration> udp_idle_timeout;  // no key of v1.36, so written only if it matters
  bool windows_run_as_service = false;
};

// With defaults for what is absent or zero.
Config to_config(Document document);

// The way back: only the section of the active mode carries the sync periods.
Document from_config(const Config& config);

}  // namespace config::file
