#include "config/validation.h"

#include <array>
#include <functional>

#include "base/text.h"
#include "config/gates.h"
#include "config/go_duration.h"
#include "config/host_port.h"
#include "config/port_range.h"
#include "net/ip.h"

namespace config {
namespace {

constexpr std::string_view kNotNegative = "must be greater than or equal to 0";
constexpr std::string_view kPositive = "must be greater than 0";

std::string shown(const std::string& text) { return base::quote(text); }
std::string shown(std::string_view text) { return base::quote(text); }
std::string shown(int32_t number) { return std::to_string(number); }
std::string shown(Duration duration) { return base::quote(format_go_duration(duration)); }
std::string shown(const std::vector<std::string>& list) {
  std::vector<std::string> quoted;
  quoted.reserve(list.size());
  for (const std::string& text : list)
    quoted.push_back(base::quote(text));
  return "[" + base::join(quoted, ",") + "]";
}

// Collects errors below one path.
class Check {
 public:
  Check(std::string path, std::vector<std::string>& errors)
      : path_(std::move(path)), errors_(errors) {}

  Check child(std::string_view name) const { return {path_ + "." + std::string(name), errors_}; }
  Check index(size_t i) const { return {path_ + "[" + std::to_string(i) + "]", errors_}; }

  void invalid(const auto& value, std::string_view detail) const {
    fail("Invalid value: " + shown(value), detail);
  }
  void fail(std::string_view what, std::string_view detail) const {
    errors_.push_back(path_ + ": " + std::string(what) + ": " + std::string(detail));
  }
  void not_negative(const auto& value) const {
    if (value < std::remove_cvref_t<decltype(value)>{}) invalid(value, kNotNegative);
  }
  void within(int32_t value, int32_t low, int32_t high) const {
    if (value >= low && value <= high) return;
    invalid(value,
            "must be within the range [" + std::to_string(low) + ", " + std::to_string(high) + "]");
  }

 private:
  std::string path_;
  std::vector<std::string>& errors_;
};

void check_gate_map(const Check& check, const GateMap& gates) {
  const auto checked = check_gates(gates);
  if (checked) return;
  std::string text;
  for (const auto& [name, value] : gates) {
    text += (text.empty() ? "" : ",") + base::quote(name) + (value ? ":true" : ":false");
  }
  check.fail("Invalid value: {" + text + "}", checked.error().text);
}

void check_cidr(const Check& check, const std::string& cidr, std::string_view detail) {
  if (!net::Cidr::parse(cidr)) check.invalid(cidr, detail);
}

void check_ipvs(const Check& check, const Ipvs& ipvs) {
  check.child("TCPTimeout").not_negative(ipvs.tcp_timeout);
  check.child("TCPFinTimeout").not_negative(ipvs.tcp_fin_timeout);
  check.child("UDPTimeout").not_negative(ipvs.udp_timeout);
  for (size_t i = 0; i < ipvs.exclude_cidrs.size(); ++i) {
    check_cidr(check.child("ExcludeCidrs").index(i), ipvs.exclude_cidrs[i], "must be a valid CIDR");
  }
}

void check_userspace(const Check& check, const Config& config) {
  if (config.udp_idle_timeout <= Duration(0)) {
    check.child("UDPIdleTimeout").invalid(config.udp_idle_timeout, kPositive);
  }
  if (!parse_port_range(config.port_range)) {
    check.child("PortRange")
        .invalid(config.port_range, "must be a valid port range (e.g. 300-2000)");
  }
}

void check_linux(const Check& check, const Config& config) {
  const Conntrack& conntrack = config.conntrack;
  const Check below = check.child("KubeProxyConntrackConfiguration");
  below.child("MaxPerCore").not_negative(conntrack.max_per_core);
  below.child("Min").not_negative(conntrack.min);
  below.child("TCPEstablishedTimeout").not_negative(conntrack.tcp_established_timeout);
  below.child("TCPCloseWaitTimeout").not_negative(conntrack.tcp_close_wait_timeout);
  below.child("UDPTimeout").not_negative(conntrack.udp_timeout);
  below.child("UDPStreamTimeout").not_negative(conntrack.udp_stream_timeout);
  check.child("OOMScoreAdj").within(config.oom_score_adj, -1000, 1000);
}

void check_mode(const Check& check, const std::string& mode) {
  constexpr std::array<std::string_view, 5> kModes{"iptables", "ipvs", "nftables", "userspace", ""};
  for (const std::string_view known : kModes) {
    if (mode == known) return;
  }
  check.invalid(
      mode,
      "must be iptables, ipvs, nftables, userspace or blank (blank means the best-available "
      "proxy [currently iptables])");
}

void check_periods(const Check& check, const Config& config) {
  const Check sync = check.child("SyncPeriod");
  if (config.config_sync_period <= Duration(0)) {
    check.child("ConfigSyncPeriod").invalid(config.config_sync_period, kPositive);
  }
  if (config.sync_period <= Duration(0)) sync.invalid(config.sync_period, kPositive);
  check.child("MinSyncPeriod").not_negative(config.min_sync_period);
  // Parity: the value shown is the minimum, under the path of the other.
  if (config.min_sync_period > config.sync_period) {
    sync.invalid(config.min_sync_period,
                 "must be greater than or equal to KubeProxyConfiguration.MinSyncPeriod");
  }
}

void check_host_port(const Check& check, const std::string& address) {
  const auto parts = split_host_port(address);
  if (!parts) return check.invalid(address, "must be IP:port");
  if (!net::IpAddr::parse(parts->host)) check.invalid(parts->host, "must be a valid IP");
  const auto port = base::parse_number<int>(parts->port);
  if (!port || *port < 1 || *port > 65535) check.invalid(parts->port, "must be a valid port");
}

void check_addresses(const Check& check, const Config& config) {
  if (!net::IpAddr::parse(config.bind_address)) {
    check.child("BindAddress")
        .invalid(config.bind_address, "not a valid textual representation of an IP address");
  }
  if (!config.healthz_bind_address.empty()) {
    check_host_port(check.child("HealthzBindAddress"), config.healthz_bind_address);
  }
  // Parity: this one is not skipped when empty, so the metrics server cannot be switched off.
  check_host_port(check.child("MetricsBindAddress"), config.metrics_bind_address);
}

void check_node_ports(const Check& check, const std::vector<std::string>& addresses) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] != "primary") {
      check_cidr(check.index(i), addresses[i], "must be a valid CIDR");
      continue;
    }
    if (addresses.size() > 1) {
      check.index(i).invalid(addresses[i], "can't use both 'primary' and CIDRs");
    }
    return;
  }
}

void check_hidden_metrics(const Check& check, const std::string& version) {
  if (version.empty() || version == "1.35") return;
  check.invalid(
      version, "invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: Invalid value: " +
                   base::quote(version) +
                   ": must be omitted or have the value '1.35'; only the previous minor version "
                   "is allowed");
}

void check_local_mode(const Check& check, const std::string& mode) {
  constexpr std::array<std::string_view, 5> kModes{"ClusterCIDR", "NodeCIDR", "BridgeInterface",
                                                   "InterfaceNamePrefix", ""};
  std::string supported;
  for (const std::string_view known : kModes) {
    if (mode == known) return;
    supported += (supported.empty() ? "" : ", ") + base::quote(known);
  }
  check.fail("Unsupported value: " + base::quote(mode), "supported values: " + supported);
}

void check_cluster_cidrs(const Check& check, const std::vector<std::string>& cidrs) {
  constexpr std::string_view kPair =
      "must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, "
      "fde4:8dba:82e1::/48]";
  if (cidrs.size() > 2) return check.invalid(cidrs, kPair);
  for (size_t i = 0; i < cidrs.size(); ++i) {
    check_cidr(check.index(i), cidrs[i],
               "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)");
  }
  if (cidrs.size() != 2) return;
  const auto first = net::Cidr::parse(cidrs[0]);
  const auto second = net::Cidr::parse(cidrs[1]);
  if (first && second && first->family() == second->family()) check.invalid(cidrs, kPair);
}

void check_detect_local(const Check& check, const Config& config) {
  const DetectLocal& local = config.detect_local;
  if (config.detect_local_mode == "BridgeInterface" && local.bridge_interface.empty()) {
    check.child("InterfaceName").invalid(local.bridge_interface, "must not be empty");
  }
  if (config.detect_local_mode == "InterfaceNamePrefix" && local.interface_name_prefix.empty()) {
    check.child("InterfacePrefix").invalid(local.interface_name_prefix, "must not be empty");
  }
  if (config.detect_local_mode == "ClusterCIDR") {
    check_cluster_cidrs(check.child("ClusterCIDRs"), local.cluster_cidrs);
  }
}

void check_log_format(const Check& check, const Config& config) {
  const std::string& format = config.logging.format;
  if (format == "json" && !gate_enabled(config, "LoggingBetaOptions")) {
    check.fail("Forbidden", "Log format json is disabled, see LoggingBetaOptions feature");
  }
  if (format != "text" && format != "json") check.invalid(format, "Unsupported log format");
}

void check_log_modules(const Check& check, const Logging& logging) {
  if (!logging.vmodule.empty() && logging.format != "text") {
    check.fail("Forbidden", "Only supported for text log format");
  }
  for (size_t i = 0; i < logging.vmodule.size(); ++i) {
    const klog::ModuleLevel& module = logging.vmodule[i];
    if (module.pattern.empty()) {
      check.index(i).fail("Required value", "File pattern must not be empty");
    }
    if (module.pattern.find_first_of("=,") != std::string::npos) {
      check.index(i).invalid(module.pattern, "File pattern must not contain equal sign or comma");
    }
    if (module.verbosity < 0) {  // was above 2147483647 in the file
      check.index(i).fail(
          "Invalid value: " + std::to_string(static_cast<uint32_t>(module.verbosity)),
          "Must be <= 2147483647");
    }
  }
}

void check_log_routing(const Check& check, bool split_stream, const std::string& buffer_size) {
  constexpr std::string_view kDisabled = "Feature LoggingAlphaOptions is disabled";
  if (split_stream) check.child("splitStream").fail("Forbidden", kDisabled);
  if (buffer_size != "0") check.child("infoBufferSize").fail("Forbidden", kDisabled);
}

}  // namespace

std::vector<std::string> validate(const Config& config) {
  std::vector<std::string> errors;
  const Check check("KubeProxyConfiguration", errors);
  check_gate_map(check.child("featureGates"), config.feature_gates);
  check.child("KubeProxyIPTablesConfiguration.MasqueradeBit")
      .within(config.iptables.masquerade_bit, 0, 31);
  if (config.mode == "ipvs") check_ipvs(check.child("KubeProxyIPVSConfiguration"), config.ipvs);
  if (config.mode == "nftables") {
    check.child("KubeProxyNFTablesConfiguration.MasqueradeBit")
        .within(config.nftables.masquerade_bit, 0, 31);
  }
  check_linux(check.child("KubeProxyLinuxConfiguration"), config);
  if (config.mode == "userspace") check_userspace(check, config);
  check_mode(check.child("Mode.ProxyMode"), config.mode);
  check.child("ClientConnection.Burst").not_negative(config.client_connection.burst);
  check_periods(check, config);
  check_addresses(check, config);
  check_node_ports(check.child("NodePortAddresses"), config.node_port_addresses);
  check_hidden_metrics(check.child("ShowHiddenMetricsForVersion"),
                       config.show_hidden_metrics_for_version);
  check_local_mode(check.child("DetectLocalMode"), config.detect_local_mode);
  check_detect_local(check.child("DetectLocalConfiguration"), config);
  return errors;
}

std::vector<std::string> validate_logging(const Config& config) {
  std::vector<std::string> errors;
  const Check check("logging", errors);
  const Logging& logging = config.logging;
  check_log_format(check.child("format"), config);
  if (logging.flush_frequency <= Duration(0)) {
    check.child("flushFrequency").invalid(logging.flush_frequency, "Must be greater than zero");
  }
  if (logging.verbosity > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
    check.child("verbosity")
        .fail("Invalid value: " + std::to_string(logging.verbosity), "Must be <= 2147483647");
  }
  check_log_modules(check.child("vmodule"), logging);
  if (gate_enabled(config, "LoggingAlphaOptions")) return errors;
  const Check options = check.child("options");
  check_log_routing(options.child("text"), logging.text_split_stream,
                    logging.text_info_buffer_size);
  check_log_routing(options.child("json"), logging.json_split_stream,
                    logging.json_info_buffer_size);
  return errors;
}

}  // namespace config
