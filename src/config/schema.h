// The keys of the configuration file, once, for its reader and its writer.
//
// fields_of(Struct) is a tuple of Field: the key, the member, what Go calls its type (the error
// texts name it) and whether an empty value is left out of the output. Keys stand in the order of
// upstream's declaration, which /configz shows.
#pragma once

#include <string_view>
#include <tuple>

#include "config/file.h"

namespace config::file {

template <typename Struct, typename T>
struct Field {
  std::string_view key;
  T Struct::* member;
  std::string_view go_type;
  bool omit_empty;
};

template <typename Struct, typename T>
constexpr Field<Struct, T> field(std::string_view key, T Struct::* member,
                                 std::string_view go_type = {}) {
  return {key, member, go_type, false};
}

template <typename Struct, typename T>
constexpr Field<Struct, T> omittable(std::string_view key, T Struct::* member,
                                     std::string_view go_type = {}) {
  return {key, member, go_type, true};
}

constexpr auto fields_of(const ClientConnection&) {
  using S = ClientConnection;
  return std::tuple{
      field("kubeconfig", &S::kubeconfig), field("acceptContentTypes", &S::accept_content_types),
      field("contentType", &S::content_type), field("qps", &S::qps), field("burst", &S::burst)};
}

constexpr auto fields_of(const LogModule&) {
  using S = LogModule;
  return std::tuple{field("filePattern", &S::file_pattern),
                    field("verbosity", &S::verbosity, "v1.VerbosityLevel")};
}

constexpr auto fields_of(const LogRouting&) {
  using S = LogRouting;
  return std::tuple{omittable("splitStream", &S::split_stream),
                    field("infoBufferSize", &S::info_buffer_size)};
}

constexpr auto fields_of(const LogOptions&) {
  using S = LogOptions;
  return std::tuple{field("text", &S::text, "v1.TextOptions"),
                    field("json", &S::json, "v1.JSONOptions")};
}

constexpr auto fields_of(const Logging&) {
  using S = Logging;
  return std::tuple{field("format", &S::format), field("flushFrequency", &S::flush_frequency),
                    field("verbosity", &S::verbosity, "v1.VerbosityLevel"),
                    omittable("vmodule", &S::vmodule, "v1.VModuleConfiguration"),
                    field("options", &S::options, "v1.FormatOptions")};
}

constexpr auto fields_of(const Iptables&) {
  using S = Iptables;
  return std::tuple{
      field("masqueradeBit", &S::masquerade_bit), field("masqueradeAll", &S::masquerade_all),
      field("localhostNodePorts", &S::localhost_node_ports), field("syncPeriod", &S::sync_period),
      field("minSyncPeriod", &S::min_sync_period)};
}

constexpr auto fields_of(const Ipvs&) {
  using S = Ipvs;
  return std::tuple{
      field("syncPeriod", &S::sync_period),        field("minSyncPeriod", &S::min_sync_period),
      field("scheduler", &S::scheduler),           field("excludeCIDRs", &S::exclude_cidrs),
      field("strictARP", &S::strict_arp),          field("tcpTimeout", &S::tcp_timeout),
      field("tcpFinTimeout", &S::tcp_fin_timeout), field("udpTimeout", &S::udp_timeout)};
}

constexpr auto fields_of(const Nftables&) {
  using S = Nftables;
  return std::tuple{
      field("masqueradeBit", &S::masquerade_bit), field("masqueradeAll", &S::masquerade_all),
      field("syncPeriod", &S::sync_period), field("minSyncPeriod", &S::min_sync_period)};
}

constexpr auto fields_of(const Winkernel&) {
  using S = Winkernel;
  return std::tuple{field("networkName", &S::network_name), field("sourceVip", &S::source_vip),
                    field("enableDSR", &S::enable_dsr),
                    field("rootHnsEndpointName", &S::root_hns_endpoint_name),
                    field("forwardHealthCheckVip", &S::forward_health_check_vip)};
}

constexpr auto fields_of(const DetectLocal&) {
  using S = DetectLocal;
  return std::tuple{field("bridgeInterface", &S::bridge_interface),
                    field("interfaceNamePrefix", &S::interface_name_prefix)};
}

constexpr auto fields_of(const Conntrack&) {
  using S = Conntrack;
  return std::tuple{field("maxPerCore", &S::max_per_core),
                    field("min", &S::min),
                    field("tcpEstablishedTimeout", &S::tcp_established_timeout),
                    field("tcpCloseWaitTimeout", &S::tcp_close_wait_timeout),
                    field("tcpBeLiberal", &S::tcp_be_liberal),
                    field("udpTimeout", &S::udp_timeout),
                    field("udpStreamTimeout", &S::udp_stream_timeout)};
}

constexpr auto fields_of(const Document&) {
  using S = Document;
  return std::tuple{
      field("kind", &S::kind),
      field("apiVersion", &S::api_version),
      omittable("featureGates", &S::feature_gates, "map[string]bool"),
      field("clientConnection", &S::client_connection, "v1alpha1.ClientConnectionConfiguration"),
      field("logging", &S::logging, "v1.LoggingConfiguration"),
      field("hostnameOverride", &S::hostname_override),
      field("bindAddress", &S::bind_address),
      field("healthzBindAddress", &S::healthz_bind_address),
      field("metricsBindAddress", &S::metrics_bind_address),
      field("bindAddressHardFail", &S::bind_address_hard_fail),
      field("enableProfiling", &S::enable_profiling),
      field("showHiddenMetricsForVersion", &S::show_hidden_metrics_for_version),
      field("mode", &S::mode, "v1alpha1.ProxyMode"),
      field("iptables", &S::iptables, "v1alpha1.KubeProxyIPTablesConfiguration"),
      field("ipvs", &S::ipvs, "v1alpha1.KubeProxyIPVSConfiguration"),
      field("nftables", &S::nftables, "v1alpha1.KubeProxyNFTablesConfiguration"),
      field("winkernel", &S::winkernel, "v1alpha1.KubeProxyWinkernelConfiguration"),
      field("detectLocalMode", &S::detect_local_mode, "v1alpha1.LocalMode"),
      field("detectLocal", &S::detect_local, "v1alpha1.DetectLocalConfiguration"),
      field("clusterCIDR", &S::cluster_cidr),
      field("nodePortAddresses", &S::node_port_addresses),
      field("oomScoreAdj", &S::oom_score_adj),
      field("conntrack", &S::conntrack, "v1alpha1.KubeProxyConntrackConfiguration"),
      field("configSyncPeriod", &S::config_sync_period),
      field("portRange", &S::port_range),
      omittable("udpIdleTimeout", &S::udp_idle_timeout),
      omittable("windowsRunAsService", &S::windows_run_as_service)};
}

template <typename T>
concept Described = requires(const T& value) { fields_of(value); };

}  // namespace config::file
