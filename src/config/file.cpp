#include "config/file.h"

#include "base/text.h"
#include "config/host_port.h"
#include "net/ip.h"

namespace config::file {
namespace {

using namespace std::chrono_literals;

template <typename T>
void default_to(T& value, const T& fallback) {
  if (value == T{}) value = fallback;
}

template <typename T>
void default_to(std::optional<T>& value, const T& fallback) {
  if (!value) value = fallback;
}

// Parity: what does not parse as IPv4 counts as IPv6 here; validation complains later.
void set_address_defaults(Document& document) {
  default_to<std::string>(document.bind_address, "0.0.0.0");
  const auto ip = net::IpAddr::parse(document.bind_address);
  const bool v4 = ip && ip->family() == net::Family::V4;
  default_to<std::string>(document.healthz_bind_address, v4 ? "0.0.0.0:10256" : "[::]:10256");
  default_to<std::string>(document.metrics_bind_address, v4 ? "127.0.0.1:10249" : "[::1]:10249");
  document.healthz_bind_address = with_default_port(document.healthz_bind_address, 10256);
  document.metrics_bind_address = with_default_port(document.metrics_bind_address, 10249);
}

// Parity: ipvs has no default for its minimum, and a minimum of 0 cannot be had elsewhere.
void set_mode_defaults(Document& document) {
  default_to(document.iptables.masquerade_bit, 14);
  default_to(document.iptables.localhost_node_ports, true);
  default_to<Duration>(document.iptables.sync_period, 30s);
  default_to<Duration>(document.iptables.min_sync_period, 1s);
  default_to<Duration>(document.ipvs.sync_period, 30s);
  default_to(document.nftables.masquerade_bit, 14);
  default_to<Duration>(document.nftables.sync_period, 30s);
  default_to<Duration>(document.nftables.min_sync_period, 1s);
}

void set_logging_defaults(Logging& logging) {
  default_to<std::string>(logging.format, "text");
  default_to<Duration>(logging.flush_frequency.value, 5s);
}

void set_client_defaults(ClientConnection& client) {
  default_to<std::string>(client.content_type, "application/vnd.kubernetes.protobuf");
  default_to(client.qps, 5.0F);
  default_to(client.burst, 10);
}

void set_conntrack_defaults(Conntrack& conntrack) {
  default_to(conntrack.max_per_core, 32768);
  default_to(conntrack.min, 131072);
  default_to<Duration>(conntrack.tcp_established_timeout, 24h);
  default_to<Duration>(conntrack.tcp_close_wait_timeout, 1h);
}

config::Logging to_logging(const Logging& logging) {
  config::Logging out{.format = logging.format,
                      .flush_frequency = logging.flush_frequency.value,
                      .verbosity = logging.verbosity,
                      .vmodule = {},
                      .text_split_stream = logging.options.text.split_stream,
                      .json_split_stream = logging.options.json.split_stream,
                      .text_info_buffer_size = logging.options.text.info_buffer_size.text,
                      .json_info_buffer_size = logging.options.json.info_buffer_size.text};
  for (const LogModule& module : logging.vmodule) {
    out.vmodule.push_back({module.file_pattern, static_cast<int>(module.verbosity)});
  }
  return out;
}

Logging from_logging(const config::Logging& logging) {
  Logging out{.format = logging.format,
              .flush_frequency = {logging.flush_frequency},
              .verbosity = logging.verbosity,
              .vmodule = {},
              .options = {.text = {logging.text_split_stream, {logging.text_info_buffer_size}},
                          .json = {logging.json_split_stream, {logging.json_info_buffer_size}}}};
  for (const klog::ModuleLevel& module : logging.vmodule) {
    out.vmodule.push_back({module.pattern, static_cast<uint32_t>(module.verbosity)});
  }
  return out;
}

config::Ipvs to_ipvs(const Document& document) {
  const Ipvs& ipvs = document.ipvs;
  return {.masquerade_bit = *document.iptables.masquerade_bit,
          .scheduler = ipvs.scheduler,
          .exclude_cidrs = ipvs.exclude_cidrs.value_or(std::vector<std::string>{}),
          .strict_arp = ipvs.strict_arp,
          .tcp_timeout = ipvs.tcp_timeout,
          .tcp_fin_timeout = ipvs.tcp_fin_timeout,
          .udp_timeout = ipvs.udp_timeout};
}

config::Conntrack to_conntrack(const Conntrack& conntrack) {
  return {.max_per_core = *conntrack.max_per_core,
          .min = *conntrack.min,
          .tcp_established_timeout = *conntrack.tcp_established_timeout,
          .tcp_close_wait_timeout = *conntrack.tcp_close_wait_timeout,
          .tcp_be_liberal = conntrack.tcp_be_liberal,
          .udp_timeout = conntrack.udp_timeout,
          .udp_stream_timeout = conntrack.udp_stream_timeout};
}

Conntrack from_conntrack(const config::Conntrack& conntrack) {
  return {.max_per_core = conntrack.max_per_core,
          .min = conntrack.min,
          .tcp_established_timeout = conntrack.tcp_established_timeout,
          .tcp_close_wait_timeout = conntrack.tcp_close_wait_timeout,
          .tcp_be_liberal = conntrack.tcp_be_liberal,
          .udp_timeout = conntrack.udp_timeout,
          .udp_stream_timeout = conntrack.udp_stream_timeout};
}

std::vector<std::string> split_cidrs(const std::string& cidrs) {
  std::vector<std::string> out;
  if (cidrs.empty()) return out;
  for (const std::string_view cidr : base::split(cidrs, ','))
    out.emplace_back(cidr);
  return out;
}

std::optional<std::vector<std::string>> null_if_empty(const std::vector<std::string>& list) {
  return list.empty() ? std::nullopt : std::optional(list);
}

std::optional<Duration> shown_udp_idle_timeout(const Config& config) {
  const bool matters =
      config.mode == "userspace" || config.udp_idle_timeout != kDefaultUdpIdleTimeout;
  return matters ? std::optional(config.udp_idle_timeout) : std::nullopt;
}

Duration min_sync_period(const Document& document) {
  if (document.mode == "ipvs") return document.ipvs.min_sync_period;
  if (document.mode == "nftables") return document.nftables.min_sync_period;
  return document.iptables.min_sync_period;
}

// The sync periods and masqueradeAll of the section that the mode selects.
void select_mode(const Document& document, Config& config) {
  config.masquerade_all = document.iptables.masquerade_all;
  config.sync_period = document.iptables.sync_period;
  config.min_sync_period = min_sync_period(document);
  if (document.mode == "ipvs") {
    config.sync_period = document.ipvs.sync_period;
  } else if (document.mode == "nftables") {
    config.masquerade_all = document.nftables.masquerade_all;
    config.sync_period = document.nftables.sync_period;
  }
}

// The other way round.
void place_mode(const Config& config, Document& document) {
  (config.mode == "nftables" ? document.nftables.masquerade_all
                             : document.iptables.masquerade_all) = config.masquerade_all;
  const auto place = [&](auto& section) {
    section.sync_period = config.sync_period;
    section.min_sync_period = config.min_sync_period;
  };
  if (config.mode == "ipvs") return place(document.ipvs);
  if (config.mode == "nftables") return place(document.nftables);
  place(document.iptables);
}

void set_defaults(Document& document) {
  set_address_defaults(document);
  set_mode_defaults(document);
  set_logging_defaults(document.logging);
  set_client_defaults(document.client_connection);
  set_conntrack_defaults(document.conntrack);
  default_to(document.oom_score_adj, -999);
  default_to<Duration>(document.config_sync_period, 15min);
  if (document.udp_idle_timeout.value_or(0s) == 0s) {
    document.udp_idle_timeout = kDefaultUdpIdleTimeout;
  }
}

}  // namespace

Config to_config(Document document) {
  const bool min_sync_period_written = min_sync_period(document) != Duration{};
  set_defaults(document);
  const ClientConnection& client = document.client_connection;
  Config config{
      .feature_gates = document.feature_gates,
      .client_connection = {client.kubeconfig, client.accept_content_types, client.content_type,
                            client.qps, client.burst},
      .logging = to_logging(document.logging),
      .hostname_override = document.hostname_override,
      .bind_address = document.bind_address,
      .healthz_bind_address = document.healthz_bind_address,
      .metrics_bind_address = document.metrics_bind_address,
      .bind_address_hard_fail = document.bind_address_hard_fail,
      .enable_profiling = document.enable_profiling,
      .show_hidden_metrics_for_version = document.show_hidden_metrics_for_version,
      .mode = document.mode,
      .iptables = {*document.iptables.masquerade_bit, *document.iptables.localhost_node_ports},
      .ipvs = to_ipvs(document),
      .nftables = {*document.nftables.masquerade_bit},
      .winkernel = document.winkernel,
      .detect_local_mode = document.detect_local_mode,
      .detect_local = {document.detect_local.bridge_interface,
                       document.detect_local.interface_name_prefix,
                       split_cidrs(document.cluster_cidr)},
      .node_port_addresses = document.node_port_addresses.value_or(std::vector<std::string>{}),
      .min_sync_period_written = min_sync_period_written,
      .oom_score_adj = *document.oom_score_adj,
      .conntrack = to_conntrack(document.conntrack),
      .config_sync_period = document.config_sync_period,
      .port_range = document.port_range,
      .udp_idle_timeout = *document.udp_idle_timeout,
      .windows_run_as_service = document.windows_run_as_service};
  select_mode(document, config);
  return config;
}

Document from_config(const Config& config) {
  const config::ClientConnection& client = config.client_connection;
  const config::Ipvs& ipvs = config.ipvs;
  Document document{.kind = std::string(kKind),
                    .api_version = std::string(kApiVersion),
                    .feature_gates = config.feature_gates,
                    .client_connection = {client.kubeconfig, client.accept_content_types,
                                          client.content_type, client.qps, client.burst},
                    .logging = from_logging(config.logging),
                    .hostname_override = config.hostname_override,
                    .bind_address = config.bind_address,
                    .healthz_bind_address = config.healthz_bind_address,
                    .metrics_bind_address = config.metrics_bind_address,
                    .bind_address_hard_fail = config.bind_address_hard_fail,
                    .enable_profiling = config.enable_profiling,
                    .show_hidden_metrics_for_version = config.show_hidden_metrics_for_version,
                    .mode = config.mode,
                    .iptables = {.masquerade_bit = config.iptables.masquerade_bit,
                                 .localhost_node_ports = config.iptables.localhost_node_ports},
                    .ipvs = {.scheduler = ipvs.scheduler,
                             .exclude_cidrs = null_if_empty(ipvs.exclude_cidrs),
                             .strict_arp = ipvs.strict_arp,
                             .tcp_timeout = ipvs.tcp_timeout,
                             .tcp_fin_timeout = ipvs.tcp_fin_timeout,
                             .udp_timeout = ipvs.udp_timeout},
                    .nftables = {.masquerade_bit = config.nftables.masquerade_bit},
                    .winkernel = config.winkernel,
                    .detect_local_mode = config.detect_local_mode,
                    .detect_local = {config.detect_local.bridge_interface,
                                     config.detect_local.interface_name_prefix},
                    .cluster_cidr = base::join(config.detect_local.cluster_cidrs, ","),
                    .node_port_addresses = null_if_empty(config.node_port_addresses),
                    .oom_score_adj = config.oom_score_adj,
                    .conntrack = from_conntrack(config.conntrack),
                    .config_sync_period = config.config_sync_period,
                    .port_range = config.port_range,
                    .udp_idle_timeout = shown_udp_idle_timeout(config),
                    .windows_run_as_service = config.windows_run_as_service};
  place_mode(config, document);
  return document;
}

}  // namespace config::file
