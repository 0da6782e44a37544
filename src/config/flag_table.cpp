#include "config/flag_table.h"

#include <algorithm>

namespace config {
namespace {

// The place of a value inside a FlagTarget.
#define AT(member) (+[](FlagTarget& target) -> auto& { return target.member; })

using enum FlagType;
using enum FlagGroup;

constexpr Flag kActionFlags[] = {
    {.name = "config",
     .type = String,
     .group = Action,
     .kept = true,
     .place = AT(config_file),
     .help = "File with the configuration, YAML or JSON. It takes the place of most flags: those "
             "are then ignored, without a word."},
    {.name = "manifests",
     .type = String,
     .group = Action,
     .kept = true,
     .place = AT(manifests),
     .help = "Read Node, Service, EndpointSlice and ServiceCIDR objects from this file or folder "
             "instead of the API server, and follow its changes."},
    {.name = "write-config-to",
     .type = String,
     .group = Action,
     .kept = true,
     .place = AT(write_config_to),
     .help = "Write the configuration that results from file, flags and defaults to "
             "this file, and exit."},
    {.name = "init-only",
     .type = Bool,
     .group = Action,
     .kept = true,
     .place = AT(init_only),
     .help = "Do only the node set-up that needs privileges (sysctls), and exit. A second instance "
             "can then run with fewer of them."},
    {.name = "cleanup",
     .type = Bool,
     .group = Action,
     .kept = true,
     .place = AT(cleanup),
     .help = "Remove the rules of every proxy mode, and exit."},
    {.name = "version",
     .type = Version,
     .group = Action,
     .kept = true,
     .place = AT(version),
     .help =
         "Print the version and exit; =raw prints all that is known about the build; =v1.36.4-x "
         "sets the version that is reported."},
    {.name = "help",
     .shorthand = 'h',
     .type = Bool,
     .group = Action,
     .kept = true,
     .place = AT(help),
     .help = "Print this text and exit."},
};

constexpr Flag kApiFlags[] = {
    {.name = "kubeconfig",
     .type = String,
     .group = Api,
     .place = AT(config.client_connection.kubeconfig),
     .key = "clientConnection.kubeconfig",
     .help = "File with the address of the API server and the credentials for it. Without it, and "
             "without --master, the service account of the pod is used."},
    {.name = "master",
     .type = String,
     .group = Api,
     .kept = true,
     .place = AT(master),
     .help = "Address of the API server; wins over the one in the kubeconfig."},
    {.name = "kube-api-content-type",
     .type = String,
     .group = Api,
     .place = AT(config.client_connection.content_type),
     .key = "clientConnection.contentType",
     .help = "Content type of requests to the API server."},
    {.name = "kube-api-qps",
     .type = Float32,
     .group = Api,
     .place = AT(config.client_connection.qps),
     .key = "clientConnection.qps",
     .help = "Requests per second to the API server; a negative number is no limit."},
    {.name = "kube-api-burst",
     .type = Int32,
     .group = Api,
     .place = AT(config.client_connection.burst),
     .key = "clientConnection.burst",
     .help = "Requests that may be sent at once, above --kube-api-qps."},
    {.name = "config-sync-period",
     .type = Period,
     .group = Api,
     .place = AT(config.config_sync_period),
     .key = "configSyncPeriod",
     .help = "How often everything that is known from the API server is looked at again."},
};

constexpr Flag kModeFlags[] = {
    {.name = "proxy-mode",
     .type = String,
     .group = Mode,
     .place = AT(config.mode),
     .key = "mode",
     .help = "How packets are directed: iptables, ipvs, nftables or userspace; empty "
             "means iptables."},
    {.name = "hostname-override",
     .type = String,
     .group = Mode,
     .kept = true,
     .place = AT(hostname_override),
     .key = "hostnameOverride",
     .help = "Name of this node's Node object, where it is not the host name. Not empty, it wins "
             "over the file."},
    {.name = "bind-address",
     .type = Ip,
     .group = Mode,
     .place = AT(config.bind_address),
     .key = "bindAddress",
     .help = "IP address to take for this node's own, in place of the one that the Node object "
             "has. 0.0.0.0 and :: mean the one of the Node object. In userspace mode the proxy's "
             "own sockets are bound to it, in other modes nothing is."},
    {.name = "nodeport-addresses",
     .type = Strings,
     .group = Mode,
     .place = AT(config.node_port_addresses),
     .key = "nodePortAddresses",
     .help =
         "Node ports answer on addresses within these CIDRs only; the word primary alone means "
         "the addresses of the Node object. Empty means all (in nftables mode: primary). With a "
         "CIDR of loopback, IPv4 node ports of nftables mode answer on 127.0.0.1."},
    {.name = "masquerade-all",
     .type = Bool,
     .group = Mode,
     .place = AT(config.masquerade_all),
     .key = "iptables.masqueradeAll, nftables.masqueradeAll",
     .help = "Give every connection to a cluster IP the node as its source."},
    {.name = "feature-gates",
     .type = Gates,
     .group = Mode,
     .place = AT(config.feature_gates),
     .key = "featureGates",
     .help = "Features to switch on or off: Name=true,Other=false. All names of Kubernetes v1.36 "
             "are accepted."},
    {.name = "oom-score-adj",
     .type = Int32,
     .group = Mode,
     .place = AT(config.oom_score_adj),
     .key = "oomScoreAdj",
     .help = "How willingly the kernel ends this process when memory runs out, -1000 (never) to "
             "1000."},
    {.name = "keep-privileges",
     .type = Bool,
     .group = Mode,
     .kept = true,
     .place = AT(keep_privileges),
     .help =
         "Keep all capabilities after the node is set up, and filter no system calls: for finding "
         "out whether that is what stops something."},
};

constexpr Flag kLocalFlags[] = {
    {.name = "detect-local-mode",
     .type = String,
     .group = Local,
     .place = AT(config.detect_local_mode),
     .key = "detectLocalMode",
     .help = "How traffic of this node's own pods is told apart: ClusterCIDR, NodeCIDR, "
             "BridgeInterface or InterfaceNamePrefix; empty means ClusterCIDR."},
    {.name = "cluster-cidr",
     .type = String,
     .group = Local,
     .place = AT(cluster_cidr),
     .key = "clusterCIDR",
     .help = "Addresses of the cluster's pods: one CIDR, or one of each family with a comma and no "
             "space between them. Used by the mode ClusterCIDR."},
    {.name = "pod-bridge-interface",
     .type = String,
     .group = Local,
     .place = AT(config.detect_local.bridge_interface),
     .key = "detectLocal.bridgeInterface",
     .help = "The bridge that the pods are attached to. Used by the mode BridgeInterface."},
    {.name = "pod-interface-name-prefix",
     .type = String,
     .group = Local,
     .place = AT(config.detect_local.interface_name_prefix),
     .key = "detectLocal.interfaceNamePrefix",
     .help = "How the names of pod interfaces begin. Used by the mode InterfaceNamePrefix."},
};

constexpr Flag kIptablesFlags[] = {
    {.name = "iptables-sync-period",
     .type = Period,
     .group = Iptables,
     .place = AT(iptables_sync_period),
     .key = "iptables.syncPeriod, nftables.syncPeriod",
     .help = "How often all rules are looked at again, in every mode but ipvs."},
    {.name = "iptables-min-sync-period",
     .type = Period,
     .group = Iptables,
     .place = AT(iptables_min_sync_period),
     .key = "iptables.minSyncPeriod, nftables.minSyncPeriod",
     .help = "Time between two updates of the rules at the least, in every mode but ipvs; in "
             "nftables and userspace mode only if it is given, else nothing waits."},
    {.name = "iptables-masquerade-bit",
     .type = Int32,
     .group = Iptables,
     .place = AT(config.iptables.masquerade_bit),
     .key = "iptables.masqueradeBit",
     .help = "Bit of the packet mark that asks for masquerading, 0 to 31; in iptables and ipvs "
             "mode."},
    {.name = "iptables-localhost-nodeports",
     .type = Bool,
     .group = Iptables,
     .place = AT(config.iptables.localhost_node_ports),
     .key = "iptables.localhostNodePorts",
     .help = "Let IPv4 node ports answer on 127.0.0.1; sets route_localnet. In iptables mode."},
};

constexpr Flag kIpvsFlags[] = {
    {.name = "ipvs-sync-period",
     .type = Period,
     .group = Ipvs,
     .place = AT(ipvs_sync_period),
     .key = "ipvs.syncPeriod",
     .help = "How often all rules are looked at again."},
    {.name = "ipvs-min-sync-period",
     .type = Period,
     .group = Ipvs,
     .place = AT(ipvs_min_sync_period),
     .key = "ipvs.minSyncPeriod",
     .help = "Time between two updates of the rules at the least."},
    {.name = "ipvs-scheduler",
     .type = String,
     .group = Ipvs,
     .place = AT(config.ipvs.scheduler),
     .key = "ipvs.scheduler",
     .help = "Scheduler of the kernel that picks endpoints; empty is rr."},
    {.name = "ipvs-exclude-cidrs",
     .type = Strings,
     .group = Ipvs,
     .place = AT(config.ipvs.exclude_cidrs),
     .key = "ipvs.excludeCIDRs",
     .help = "Virtual servers within these CIDRs belong to somebody else: leave them alone."},
    {.name = "ipvs-strict-arp",
     .type = Bool,
     .group = Ipvs,
     .place = AT(config.ipvs.strict_arp),
     .key = "ipvs.strictARP",
     .help = "Do not answer ARP for cluster IPs (arp_ignore=1, arp_announce=2)."},
    {.name = "ipvs-tcp-timeout",
     .type = Period,
     .group = Ipvs,
     .place = AT(config.ipvs.tcp_timeout),
     .key = "ipvs.tcpTimeout",
     .help = "Idle time after which a TCP connection is forgotten; 0 keeps the kernel's."},
    {.name = "ipvs-tcpfin-timeout",
     .type = Period,
     .group = Ipvs,
     .place = AT(config.ipvs.tcp_fin_timeout),
     .key = "ipvs.tcpFinTimeout",
     .help = "The same for a TCP connection after its FIN; 0 keeps the kernel's."},
    {.name = "ipvs-udp-timeout",
     .type = Period,
     .group = Ipvs,
     .place = AT(config.ipvs.udp_timeout),
     .key = "ipvs.udpTimeout",
     .help = "The same for UDP; 0 keeps the kernel's."},
};

constexpr Flag kUserspaceFlags[] = {
    {.name = "proxy-port-range",
     .type = String,
     .group = Userspace,
     .place = AT(config.port_range),
     .key = "portRange",
     .help = "Ports to take for the proxy's own sockets: N, A-B or A+N; empty means any that is "
             "free."},
    {.name = "udp-timeout",
     .type = Period,
     .group = Userspace,
     .place = AT(config.udp_idle_timeout),
     .key = "udpIdleTimeout",
     .help = "Idle time after which a UDP client is forgotten, greater than 0."},
};

constexpr Flag kConntrackFlags[] = {
    {.name = "conntrack-max-per-core",
     .type = Int32,
     .group = Conntrack,
     .place = AT(config.conntrack.max_per_core),
     .key = "conntrack.maxPerCore",
     .help = "Connections to track per CPU core; 0 leaves the limit as it is."},
    {.name = "conntrack-min",
     .type = Int32,
     .group = Conntrack,
     .place = AT(config.conntrack.min),
     .key = "conntrack.min",
     .help = "Connections to track at the least, whatever --conntrack-max-per-core gives."},
    {.name = "conntrack-tcp-timeout-established",
     .type = Period,
     .group = Conntrack,
     .place = AT(config.conntrack.tcp_established_timeout),
     .key = "conntrack.tcpEstablishedTimeout",
     .help = "Idle time after which a TCP connection is forgotten; 0 leaves it as it is."},
    {.name = "conntrack-tcp-timeout-close-wait",
     .type = Period,
     .group = Conntrack,
     .place = AT(config.conntrack.tcp_close_wait_timeout),
     .key = "conntrack.tcpCloseWaitTimeout",
     .help = "The same in the state CLOSE_WAIT."},
    {.name = "conntrack-tcp-be-liberal",
     .type = Bool,
     .group = Conntrack,
     .place = AT(config.conntrack.tcp_be_liberal),
     .key = "conntrack.tcpBeLiberal",
     .help = "Do not treat TCP packets outside of the window as invalid."},
    {.name = "conntrack-udp-timeout",
     .type = Period,
     .group = Conntrack,
     .place = AT(config.conntrack.udp_timeout),
     .key = "conntrack.udpTimeout",
     .help = "Idle time for a UDP flow without an answer; 0 leaves it as it is."},
    {.name = "conntrack-udp-timeout-stream",
     .type = Period,
     .group = Conntrack,
     .place = AT(config.conntrack.udp_stream_timeout),
     .key = "conntrack.udpStreamTimeout",
     .help = "Idle time for a UDP flow with packets in both directions; 0 leaves it as it is."},
    {.name = "tcp-reset-after",
     .type = Period,
     .group = Conntrack,
     .kept = true,
     .place = AT(tcp_reset_after),
     .help =
         "Reset TCP connections to endpoints that have been gone for this long, which otherwise "
         "hang until they time out. 0 leaves them alone, as kube-proxy does. In userspace mode: "
         "how long connections to such an endpoint may go on."},
};

constexpr Flag kServeFlags[] = {
    {.name = "healthz-bind-address",
     .type = IpPort,
     .group = Serve,
     .place = AT(config.healthz_bind_address),
     .key = "healthzBindAddress",
     .help = "Where /healthz and /livez are served; an IP alone gets port 10256."},
    {.name = "metrics-bind-address",
     .type = IpPort,
     .group = Serve,
     .place = AT(config.metrics_bind_address),
     .key = "metricsBindAddress",
     .help = "Where /metrics is served; an IP alone gets port 10249."},
    {.name = "per-service-metrics",
     .type = Bool,
     .group = Serve,
     .kept = true,
     .place = AT(per_service_metrics),
     .help =
         "Count the connections to each Service port, every 15 s, and show them among the "
         "metrics; in iptables mode, where that reads all rules each time, and in userspace mode."},
    {.name = "healthz-port",
     .type = Int32,
     .group = Serve,
     .place = AT(healthz_port),
     .help = "0 switches the health server off; another number is the port for a "
             "--healthz-bind-address without one.",
     .deprecated = "This flag is deprecated and will be removed in a future release. Please use "
                   "--healthz-bind-address instead."},
    {.name = "metrics-port",
     .type = Int32,
     .group = Serve,
     .place = AT(metrics_port),
     .help = "The port for a --metrics-bind-address without one; 0 is an error.",
     .deprecated = "This flag is deprecated and will be removed in a future release. Please use "
                   "--metrics-bind-address instead."},
    {.name = "bind-address-hard-fail",
     .type = Bool,
     .group = Serve,
     .place = AT(config.bind_address_hard_fail),
     .key = "bindAddressHardFail",
     .help = "Exit when one of the two servers cannot be started."},
    {.name = "profiling",
     .type = Bool,
     .group = Serve,
     .place = AT(config.enable_profiling),
     .key = "enableProfiling",
     .help = "Serve profiles beside the metrics, under /debug/pprof."},
    {.name = "show-hidden-metrics-for-version",
     .type = String,
     .group = Serve,
     .place = AT(config.show_hidden_metrics_for_version),
     .key = "showHiddenMetricsForVersion",
     .help = "Show metrics again that this release has hidden; only 1.35 is accepted."},
};

constexpr Flag kLogFlags[] = {
    {.name = "v",
     .shorthand = 'v',
     .type = Level,
     .group = Log,
     .kept = true,
     .place = AT(config.logging.verbosity),
     .key = "logging.verbosity",
     .help =
         "How much to log: 2 summaries of each sync, 4 every change, 6 requests, 9 everything."},
    {.name = "vmodule",
     .type = Modules,
     .group = Log,
     .kept = true,
     .place = AT(config.logging.vmodule),
     .key = "logging.vmodule",
     .help = "More of that for single source files: runner=4,cod*=6. Text format only."},
    {.name = "logging-format",
     .type = String,
     .group = Log,
     .kept = true,
     .place = AT(config.logging.format),
     .key = "logging.format",
     .help = "text or json."},
    {.name = "log-flush-frequency",
     .type = Period,
     .group = Log,
     .kept = true,
     .place = AT(config.logging.flush_frequency),
     .key = "logging.flushFrequency",
     .help = "Accepted; every line is written at once."},
    {.name = "log-text-split-stream",
     .type = Bool,
     .group = Log,
     .kept = true,
     .place = AT(config.logging.text_split_stream),
     .key = "logging.options.text.splitStream",
     .help = "Text: errors to stderr, the rest to stdout. Needs the gate LoggingAlphaOptions."},
    {.name = "log-text-info-buffer-size",
     .type = Quantity,
     .group = Log,
     .kept = true,
     .place = AT(config.logging.text_info_buffer_size),
     .key = "logging.options.text.infoBufferSize",
     .help = "Accepted without effect. Needs the gate LoggingAlphaOptions."},
    {.name = "log-json-split-stream",
     .type = Bool,
     .group = Log,
     .kept = true,
     .place = AT(config.logging.json_split_stream),
     .key = "logging.options.json.splitStream",
     .help = "JSON: errors to stderr, the rest to stdout. Needs the gate LoggingAlphaOptions."},
    {.name = "log-json-info-buffer-size",
     .type = Quantity,
     .group = Log,
     .kept = true,
     .place = AT(config.logging.json_info_buffer_size),
     .key = "logging.options.json.infoBufferSize",
     .help = "Accepted without effect. Needs the gate LoggingAlphaOptions."},
};

constexpr Flag kOtherFlags[] = {
    {.name = "boot-id-file",
     .type = String,
     .group = Other,
     .place = AT(boot_id_file),
     .help = "Accepted without effect."},
    {.name = "machine-id-file",
     .type = String,
     .group = Other,
     .place = AT(machine_id_file),
     .help = "Accepted without effect."},
};

#undef AT

std::vector<Flag> all_flags() {
  std::vector<Flag> flags;
  const auto add = [&](std::span<const Flag> group) {
    flags.insert(flags.end(), group.begin(), group.end());
  };
  for (const std::span<const Flag> group : std::initializer_list<std::span<const Flag>>{
           kActionFlags, kApiFlags, kModeFlags, kLocalFlags, kIptablesFlags, kIpvsFlags,
           kUserspaceFlags, kConntrackFlags, kServeFlags, kLogFlags, kOtherFlags}) {
    add(group);
  }
  return flags;
}

}  // namespace

std::string_view title(FlagGroup group) {
  switch (group) {
    case FlagGroup::Action:
      return "What to do";
    case FlagGroup::Api:
      return "API server";
    case FlagGroup::Mode:
      return "Node and mode";
    case FlagGroup::Local:
      return "Traffic of this node's pods";
    case FlagGroup::Iptables:
      return "iptables and nftables";
    case FlagGroup::Ipvs:
      return "IPVS";
    case FlagGroup::Userspace:
      return "Userspace";
    case FlagGroup::Conntrack:
      return "Connection tracking";
    case FlagGroup::Serve:
      return "Health and metrics";
    case FlagGroup::Log:
      return "Logging";
    case FlagGroup::Other:
      return "Others";
  }
  return "";
}

std::span<const Flag> flag_table() {
  static const std::vector<Flag> flags = all_flags();
  return flags;
}

const Flag* find_flag(std::string_view name) {
  std::string plain(name);
  std::ranges::replace(plain, '_', '-');
  const auto flags = flag_table();
  const auto at = std::ranges::find(flags, plain, &Flag::name);
  return at == flags.end() ? nullptr : &*at;
}

const Flag* find_shorthand(char letter) {
  const auto flags = flag_table();
  const auto at = std::ranges::find(flags, letter, &Flag::shorthand);
  return at == flags.end() || letter == 0 ? nullptr : &*at;
}

}  // namespace config
