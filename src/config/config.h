// The configuration of the proxy: what KubeProxyConfiguration (v1alpha1) and the flags say, after
// defaulting. A plain value; nothing here looks at the machine.
//
// Field names follow the keys of the file. `mode` selects which of the sync periods and
// masqueradeAll count; they are resolved into the top-level members when the file is read.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "log/log.h"

namespace config {

using Duration = std::chrono::nanoseconds;

struct ClientConnection {
  std::string kubeconfig;
  std::string accept_content_types;
  std::string content_type = "application/vnd.kubernetes.protobuf";
  float qps = 5;
  int32_t burst = 10;
};

struct Logging {
  std::string format = "text";
  Duration flush_frequency = std::chrono::seconds(5);
  uint32_t verbosity = 0;
  std::vector<klog::ModuleLevel> vmodule;
  bool text_split_stream = false;
  bool json_split_stream = false;
  std::string text_info_buffer_size = "0";
  std::string json_info_buffer_size = "0";
};

struct Iptables {
  int32_t masquerade_bit = 14;
  bool localhost_node_ports = true;
};

struct Ipvs {
  int32_t masquerade_bit = 14;
  std::string scheduler;
  std::vector<std::string> exclude_cidrs;
  bool strict_arp = false;
  Duration tcp_timeout{};
  Duration tcp_fin_timeout{};
  Duration udp_timeout{};
};

struct Nftables {
  int32_t masquerade_bit = 14;
};

struct Winkernel {
  std::string network_name;
  std::string source_vip;
  std::string root_hns_endpoint_name;
  bool enable_dsr = false;
  bool forward_health_check_vip = false;
};

struct DetectLocal {
  std::string bridge_interface;
  std::string interface_name_prefix;
  std::vector<std::string> cluster_cidrs;  // clusterCIDR, split at commas, not trimmed
};

struct Conntrack {
  int32_t max_per_core = 32768;
  int32_t min = 131072;
  Duration tcp_established_timeout = std::chrono::hours(24);
  Duration tcp_close_wait_timeout = std::chrono::hours(1);
  bool tcp_be_liberal = false;
  Duration udp_timeout{};
  Duration udp_stream_timeout{};
};

inline constexpr Duration kDefaultUdpIdleTimeout = std::chrono::milliseconds(250);

struct Config {
  std::map<std::string, bool> feature_gates;  // as set by the user
  ClientConnection client_connection;
  Logging logging;
  std::string hostname_override;
  std::string bind_address = "0.0.0.0";
  std::string healthz_bind_address = "0.0.0.0:10256";
  std::string metrics_bind_address = "127.0.0.1:10249";
  bool bind_address_hard_fail = false;
  bool enable_profiling = false;
  std::string show_hidden_metrics_for_version;
  std::string mode;  // "iptables", "ipvs", "nftables", "userspace" (after defaulting never empty)
  Iptables iptables;
  Ipvs ipvs;
  Nftables nftables;
  Winkernel winkernel;
  std::string detect_local_mode;  // after defaulting never empty
  DetectLocal detect_local;
  std::vector<std::string> node_port_addresses;
  Duration sync_period = std::chrono::seconds(30);     // of the mode
  Duration min_sync_period = std::chrono::seconds(1);  // of the mode
  bool min_sync_period_written = false;                // by somebody: not the default; no key
  bool masquerade_all = false;                         // of the mode
  int32_t oom_score_adj = -999;
  Conntrack conntrack;
  Duration config_sync_period = std::chrono::minutes(15);
  std::string port_range;                              // mode userspace only; see port_range.h
  Duration udp_idle_timeout = kDefaultUdpIdleTimeout;  // mode userspace only
  bool windows_run_as_service = false;
};

// How long a sync waits for the end of the last one, at the least: min_sync_period, but in other modes than iptables
// only if somebody has written it.
Duration min_sync_gap(const Config& config);

// Is the gate on? Known gates have their default of v1.36 unless the configuration sets them.
bool gate_enabled(const Config& config, std::string_view gate);

}  // namespace config
