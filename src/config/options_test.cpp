#include "config/options.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/flag_table.h"

namespace config {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

using Args = std::vector<std::string>;

// A configuration file that goes with the object.
class ConfigFile {
 public:
  explicit ConfigFile(std::string_view body)
      : path_(testing::TempDir() + "kube-proxy-options-test-" + std::to_string(getpid()) +
              ".yaml") {
    std::ofstream(path_) << "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
                            "kind: KubeProxyConfiguration\n"
                         << body;
  }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  ~ConfigFile() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }
  std::string flag() const { return "--config=" + path_; }

 private:
  std::string path_;
};

Parsed parse(const Args& args) { return parse_command_line(args); }

// The options of a command line that must be fine.
Options options(const Args& args) {
  Parsed parsed = parse(args);
  EXPECT_FALSE(parsed.exit) << parsed.exit->err;
  EXPECT_EQ(parsed.command_error.value_or(""), "");
  return parsed.options;
}

Config config(const Args& args) { return options(args).config; }

// The reason of a usage error.
std::string usage_error(const Args& args) {
  const Parsed parsed = parse(args);
  if (!parsed.exit) return "no error";
  EXPECT_EQ(parsed.exit->code, 1);
  EXPECT_EQ(parsed.exit->out, "");
  EXPECT_THAT(parsed.exit->err, StartsWith(usage()));
  const std::string marker = "\nError: ";
  const size_t at = parsed.exit->err.rfind(marker);
  std::string reason = parsed.exit->err.substr(at + marker.size());
  EXPECT_THAT(reason, EndsWith("\n"));
  reason.pop_back();
  return reason;
}

std::string command_error(const Args& args) {
  const Parsed parsed = parse(args);
  EXPECT_FALSE(parsed.exit) << parsed.exit->err;
  return parsed.command_error.value_or("");
}

std::vector<std::string> notices(const Options& from) {
  std::vector<std::string> out;
  out.reserve(from.notices.size());
  for (const auto& notice : from.notices)
    out.push_back(notice.message);
  return out;
}

// --- the dialect

TEST(Flags, TakeTheirValueInEveryForm) {
  EXPECT_EQ(config({"--oom-score-adj=5"}).oom_score_adj, 5);
  EXPECT_EQ(config({"--oom-score-adj", "5"}).oom_score_adj, 5);
  EXPECT_EQ(config({"--oom-score-adj", "-5"}).oom_score_adj, -5);
  EXPECT_EQ(config({"--oom_score_adj=0x10"}).oom_score_adj, 16);
  EXPECT_EQ(config({"--v=4"}).logging.verbosity, 4U);
  EXPECT_EQ(config({"-v", "4"}).logging.verbosity, 4U);
  EXPECT_EQ(config({"-v=4"}).logging.verbosity, 4U);
  EXPECT_EQ(config({"-v4"}).logging.verbosity, 4U);
  EXPECT_TRUE(config({"--masquerade-all"}).masquerade_all);
  EXPECT_FALSE(config({"--masquerade-all=false"}).masquerade_all);
  EXPECT_FALSE(config({"--iptables-localhost-nodeports=0"}).iptables.localhost_node_ports);
  EXPECT_EQ(config({"--kube-api-qps=2.5"}).client_connection.qps, 2.5F);
  EXPECT_EQ(config({"--config-sync-period=1h"}).config_sync_period, 1h);
}

TEST(Flags, TheLastUseCounts) {
  EXPECT_EQ(config({"--oom-score-adj=5", "--oom-score-adj=6"}).oom_score_adj, 6);
}

TEST(Flags, ListsReplaceTheDefaultAndThenGrow) {
  EXPECT_THAT(config({"--nodeport-addresses=10.0.0.0/8,11.0.0.0/8"}).node_port_addresses,
              ElementsAre("10.0.0.0/8", "11.0.0.0/8"));
  EXPECT_THAT(config({"--nodeport-addresses=10.0.0.0/8", "--nodeport-addresses", "11.0.0.0/8"})
                  .node_port_addresses,
              ElementsAre("10.0.0.0/8", "11.0.0.0/8"));
  EXPECT_THAT(config({"--nodeport-addresses=\"10.0.0.0/8\""}).node_port_addresses,
              ElementsAre("10.0.0.0/8"));
  EXPECT_TRUE(config({"--nodeport-addresses="}).node_port_addresses.empty());
}

TEST(Flags, GatesAreAMap) {
  const auto gates = config({"--feature-gates=AllAlpha=false, ComponentFlagz=false,",
                             "--feature-gates", "AllBeta=0"})
                         .feature_gates;
  EXPECT_THAT(gates, testing::UnorderedElementsAre(Pair("AllAlpha", false), Pair("AllBeta", false),
                                                   Pair("ComponentFlagz", false)));
}

TEST(Flags, VmoduleIsAListOfPatterns) {
  const auto modules = config({"--vmodule=a*=1,,b=2"}).logging.vmodule;
  ASSERT_EQ(modules.size(), 2U);
  EXPECT_EQ(modules[0].pattern, "a*");
  EXPECT_EQ(modules[1].verbosity, 2);
}

TEST(Flags, UnknownOnesAreRefused) {
  EXPECT_EQ(usage_error({"--bogus"}), "unknown flag: --bogus");
  EXPECT_EQ(usage_error({"--bogus=1"}), "unknown flag: --bogus");
  EXPECT_EQ(usage_error({"--windows-service"}), "unknown flag: --windows-service");
  EXPECT_EQ(usage_error({"-x"}), "unknown shorthand flag: 'x' in -x");
  EXPECT_EQ(usage_error({"-xy=1"}), "unknown shorthand flag: 'x' in -xy=1");
  EXPECT_EQ(usage_error({"--=x"}), "bad flag syntax: --=x");
  EXPECT_EQ(usage_error({"---x"}), "bad flag syntax: ---x");
}

TEST(Flags, MissingValuesAreTold) {
  EXPECT_EQ(usage_error({"--config"}), "flag needs an argument: --config");
  EXPECT_EQ(usage_error({"-v"}), "flag needs an argument: 'v' in -v");
}

TEST(Flags, BadValuesAreToldInTheWordsOfGo) {
  const auto invalid = [](const std::string& name, const std::string& value) {
    const std::string error = usage_error({"--" + name, value});
    const std::string prefix = "invalid argument \"" + value + "\" for \"--" + name + "\" flag: ";
    return error.starts_with(prefix) ? error.substr(prefix.size()) : error;
  };
  EXPECT_EQ(invalid("kube-api-burst", "foo"), "strconv.ParseInt: parsing \"foo\": invalid syntax");
  EXPECT_EQ(invalid("kube-api-burst", "3000000000"),
            "strconv.ParseInt: parsing \"3000000000\": value out of range");
  EXPECT_EQ(invalid("kube-api-burst", "99999999999999999999"),
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range");
  EXPECT_EQ(invalid("kube-api-burst", ""), "strconv.ParseInt: parsing \"\": invalid syntax");
  EXPECT_EQ(invalid("kube-api-qps", "x"), "strconv.ParseFloat: parsing \"x\": invalid syntax");
  EXPECT_EQ(invalid("kube-api-qps", "1e99"),
            "strconv.ParseFloat: parsing \"1e99\": value out of range");
  EXPECT_EQ(invalid("iptables-sync-period", "foo"), "time: invalid duration \"foo\"");
  EXPECT_EQ(invalid("bind-address", "xyz"), "\"xyz\" is not a valid IP address");
  EXPECT_EQ(
      invalid("healthz-bind-address", "xyz"),
      "\"xyz\" is not in a valid format (ip or ip:port): address xyz: missing port in address");
  EXPECT_EQ(invalid("healthz-bind-address", "a:b:c"),
            "\"a:b:c\" is not in a valid format (ip or ip:port): address a:b:c: too many colons in "
            "address");
  EXPECT_EQ(invalid("healthz-bind-address", "x:1"), "\"x\" is not a valid IP address");
  EXPECT_EQ(invalid("metrics-bind-address", "1.2.3.4:x"), "\"x\" is not a valid number");
  EXPECT_EQ(invalid("metrics-bind-address", "1.2.3.4:70000"), "\"70000\" is not a valid number");
  EXPECT_EQ(invalid("feature-gates", "Foo"), "malformed pair, expect string=bool");
  EXPECT_EQ(invalid("feature-gates", "Foo=xyz"),
            "invalid value of Foo: xyz, err: strconv.ParseBool: parsing \"xyz\": invalid syntax");
  EXPECT_EQ(invalid("vmodule", "foo"), "\"foo\" does not have the pattern=N format");
  EXPECT_EQ(invalid("vmodule", "foo=x"),
            "parsing verbosity in \"foo=x\": strconv.ParseUint: parsing \"x\": invalid syntax");
  EXPECT_EQ(invalid("log-text-info-buffer-size", "x"),
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
  EXPECT_EQ(invalid("nodeport-addresses", "a\"b").substr(0, 11), "invalid arg");
}

TEST(Flags, BadValuesNameTheShorthandToo) {
  EXPECT_EQ(
      usage_error({"-v=x"}),
      "invalid argument \"x\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"x\": invalid "
      "syntax");
  EXPECT_EQ(usage_error({"--v=2147483648"}),
            "invalid argument \"2147483648\" for \"-v, --v\" flag: strconv.ParseUint: parsing "
            "\"2147483648\": value out of range");
  EXPECT_EQ(usage_error({"--cleanup=maybe"}),
            "invalid argument \"maybe\" for \"--cleanup\" flag: strconv.ParseBool: parsing "
            "\"maybe\": invalid syntax");
}

TEST(Flags, StrayWordsAreRefusedWithoutUsage) {
  const auto error = [](const Args& args) {
    const Parsed parsed = parse(args);
    return parsed.exit ? parsed.exit->err : "";
  };
  EXPECT_EQ(error({"foo"}), "Error: \"kube-proxy\" does not take any arguments, got [\"foo\"]\n");
  EXPECT_EQ(error({"a", "--cleanup", "", "-"}),
            "Error: \"kube-proxy\" does not take any arguments, got [\"a\" \"\" \"-\"]\n");
  EXPECT_EQ(error({"--", "--bogus"}),
            "Error: \"kube-proxy\" does not take any arguments, got [\"--bogus\"]\n");
  EXPECT_EQ(error({"", ""}), "");
}

TEST(Flags, DeprecatedOnesAreToldOnStderr) {
  EXPECT_EQ(parse({"--healthz-port=1"}).deprecation_notices,
            "Flag --healthz-port has been deprecated, This flag is deprecated and will be removed "
            "in a future release. Please use --healthz-bind-address instead.\n");
  EXPECT_EQ(parse({"--metrics-port=1"}).deprecation_notices,
            "Flag --metrics-port has been deprecated, This flag is deprecated and will be removed "
            "in a future release. Please use --metrics-bind-address instead.\n");
}

TEST(Flags, AreListedByNameWithTheirValues) {
  const auto flags = options({"--bind-address=::", "--nodeport-addresses=10.0.0.0/8,11.0.0.0/8",
                              "--feature-gates=AllBeta=false", "--vmodule=a=1"})
                         .flags;
  EXPECT_TRUE(std::ranges::is_sorted(flags));
  EXPECT_THAT(flags, Contains(Pair("bind-address", "::")));
  EXPECT_THAT(flags, Contains(Pair("nodeport-addresses", "[10.0.0.0/8,11.0.0.0/8]")));
  EXPECT_THAT(flags, Contains(Pair("feature-gates", "AllBeta=false")));
  EXPECT_THAT(flags, Contains(Pair("vmodule", "a=1")));
  EXPECT_THAT(flags, Contains(Pair("config-sync-period", "15m0s")));
  EXPECT_THAT(flags, Contains(Pair("kube-api-qps", "5")));
  EXPECT_THAT(flags, Contains(Pair("version", "false")));
  EXPECT_THAT(flags, Contains(Pair("ipvs-exclude-cidrs", "[]")));
}

// --- actions

TEST(Actions, HelpGoesToStdout) {
  for (const auto* flag : {"--help", "-h"}) {
    const Parsed parsed = parse({flag});
    ASSERT_TRUE(parsed.exit);
    EXPECT_EQ(parsed.exit->code, 0);
    EXPECT_EQ(parsed.exit->out, usage());
    EXPECT_EQ(parsed.exit->err, "");
  }
  EXPECT_EQ(usage_error({"--help", "--bogus"}), "unknown flag: --bogus");
}

TEST(Actions, HelpHidesDeprecatedFlagsAndNamesSubcommands) {
  EXPECT_THAT(usage(), HasSubstr("--proxy-mode string"));
  EXPECT_THAT(usage(), HasSubstr("* -v, --v level"));
  EXPECT_THAT(usage(), HasSubstr("render -f"));
  EXPECT_THAT(usage(), Not(HasSubstr("--healthz-port")));
  std::istringstream lines(usage());
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 100U) << line;
}

TEST(Actions, VersionIsPrintedBeforeAnythingElse) {
  for (const auto* flag : {"--version", "--version=true", "--version=1"}) {
    const Parsed parsed = parse({flag, "--config=/does/not/exist"});
    ASSERT_TRUE(parsed.exit);
    EXPECT_EQ(parsed.exit->code, 0);
    EXPECT_EQ(parsed.exit->out, "Kubernetes v1.36.4\n");
  }
  EXPECT_THAT(parse({"--version=raw"}).exit->out,
              StartsWith("version.Info{Major:\"1\", Minor:\"36\", EmulationMajor:\"\", "));
}

TEST(Actions, TheReportedVersionMayGetASuffix) {
  EXPECT_EQ(options({}).version, "v1.36.4");
  EXPECT_EQ(options({"--version=v1.36.4-mine"}).version, "v1.36.4-mine");
  EXPECT_EQ(options({"--version=false"}).version, "v1.36.4");
  EXPECT_EQ(usage_error({"--version=v1.2.3"}),
            "invalid argument \"v1.2.3\" for \"--version\" flag: version \"v1.2.3\" must match "
            "major/minor/patch of default version \"v1.36.4\"");
  EXPECT_EQ(usage_error({"--version=vx"}),
            "invalid argument \"vx\" for \"--version\" flag: could not parse \"vx\" as version");
}

TEST(Actions, AreKeptInTheOptions) {
  const Options parsed = options(
      {"--cleanup", "--init-only", "--master=http://m", "--manifests=/m", "--write-config-to=/w"});
  EXPECT_TRUE(parsed.cleanup);
  EXPECT_TRUE(parsed.init_only);
  EXPECT_EQ(parsed.master, "http://m");
  EXPECT_EQ(parsed.manifests, "/m");
  EXPECT_EQ(parsed.write_config_to, "/w");
}

// --- completing

TEST(Completion, FlagsAloneHaveTheirDefaults) {
  const Config plain = config({});
  EXPECT_EQ(plain.mode, "iptables");
  EXPECT_EQ(plain.detect_local_mode, "ClusterCIDR");
  EXPECT_EQ(plain.healthz_bind_address, "0.0.0.0:10256");
  EXPECT_TRUE(plain.node_port_addresses.empty());
  EXPECT_TRUE(plain.detect_local.cluster_cidrs.empty());
  EXPECT_EQ(config({"--bind-address=::"}).healthz_bind_address, "0.0.0.0:10256");
}

TEST(Completion, SaysWhatItChose) {
  EXPECT_THAT(notices(options({})), ElementsAre("Using iptables proxy",
                                                "Defaulting detect-local-mode", "DetectLocalMode"));
  EXPECT_THAT(notices(options({"--proxy-mode=iptables", "--detect-local-mode=NodeCIDR"})),
              ElementsAre("DetectLocalMode"));
}

TEST(Completion, NftablesUsesThePrimaryAddressesForNodePorts) {
  EXPECT_THAT(config({"--proxy-mode=nftables"}).node_port_addresses, ElementsAre("primary"));
}

TEST(Completion, PeriodsFollowTheMode) {
  const auto periods = [](const std::string& mode) {
    const Config made = config({"--proxy-mode=" + mode, "--iptables-sync-period=20s",
                                "--iptables-min-sync-period=2s", "--ipvs-sync-period=40s",
                                "--ipvs-min-sync-period=4s"});
    return std::pair(made.sync_period / 1s, made.min_sync_period / 1s);
  };
  EXPECT_EQ(periods(""), std::pair(20L, 2L));
  EXPECT_EQ(periods("nftables"), std::pair(20L, 2L));
  EXPECT_EQ(periods("userspace"), std::pair(20L, 2L));
  EXPECT_EQ(periods("ipvs"), std::pair(40L, 4L));
  EXPECT_EQ(config({"--proxy-mode=ipvs"}).min_sync_period, 1s);
}

TEST(Completion, UserspaceHasTwoFlagsOfItsOwn) {
  const Config made = config({"--proxy-port-range=300-2000", "--udp-timeout=2s"});
  EXPECT_EQ(made.port_range, "300-2000");
  EXPECT_EQ(made.udp_idle_timeout, 2s);
}

TEST(Completion, AFlagForTheMinimumCountsInModeNftablesToo) {
  const auto gap = [](std::vector<std::string> args) {
    args.push_back("--proxy-mode=nftables");
    return min_sync_gap(config(args));
  };
  EXPECT_EQ(gap({}), 10ms);
  EXPECT_EQ(gap({"--iptables-sync-period=20s", "--ipvs-min-sync-period=3s"}), 10ms);
  EXPECT_EQ(gap({"--iptables-min-sync-period=1s"}), 1s);
  EXPECT_EQ(gap({"--iptables-min-sync-period=0"}), 0s);
  EXPECT_EQ(min_sync_gap(config({})), 1s);
}

TEST(Completion, ClusterCidrIsSplitAtCommas) {
  EXPECT_THAT(config({"--cluster-cidr=10.0.0.0/8,fd00::/8"}).detect_local.cluster_cidrs,
              ElementsAre("10.0.0.0/8", "fd00::/8"));
  EXPECT_EQ(command_error({"--cluster-cidr="}),
            "failed validate: KubeProxyConfiguration.DetectLocalConfiguration.ClusterCIDRs[0]: "
            "Invalid value: \"\": must be a valid CIDR block (e.g. 10.100.0.0/16 or "
            "fde4:8dba:82e1::/48)");
}

TEST(Completion, DeprecatedPortsFillInForABareAddress) {
  EXPECT_EQ(config({"--healthz-bind-address=1.2.3.4"}).healthz_bind_address, "1.2.3.4:10256");
  EXPECT_EQ(config({"--healthz-bind-address=::1", "--healthz-port=5"}).healthz_bind_address,
            "[::1]:5");
  EXPECT_EQ(config({"--healthz-port=5"}).healthz_bind_address, "0.0.0.0:10256");
  EXPECT_EQ(config({"--healthz-port=0"}).healthz_bind_address, "");
  EXPECT_EQ(config({"--healthz-bind-address="}).healthz_bind_address, "0.0.0.0:10256");
  EXPECT_EQ(config({"--metrics-bind-address=1.2.3.4"}).metrics_bind_address, "1.2.3.4:10249");
  EXPECT_EQ(command_error({"--metrics-port=0"}),
            "failed validate: KubeProxyConfiguration.MetricsBindAddress: Invalid value: \"\": must "
            "be IP:port");
  EXPECT_EQ(command_error({"--healthz-bind-address=1.2.3.4", "--write-config-to=/w"}),
            "failed validate: KubeProxyConfiguration.HealthzBindAddress: Invalid value: "
            "\"1.2.3.4\": must be IP:port");
}

TEST(Completion, HostnameOverrideIsTrimmedAndLowered) {
  EXPECT_EQ(config({"--hostname-override= Node-1 "}).hostname_override, "node-1");
  EXPECT_EQ(config({"--hostname-override="}).hostname_override, "");
  EXPECT_EQ(command_error({"--hostname-override=  "}),
            "failed complete: empty hostname-override is invalid");
}

TEST(Completion, GatesAreChecked) {
  EXPECT_EQ(command_error({"--feature-gates=Foo=true"}),
            "failed complete: unrecognized feature gate: Foo");
  EXPECT_EQ(command_error({"--feature-gates=NFTablesProxyMode=false"}),
            "failed complete: cannot set feature gate NFTablesProxyMode to false, feature is "
            "locked to true");
}

TEST(Completion, OutgoingGatesAreWarnedAboutTwice) {
  const auto said = notices(options({"--feature-gates=AllowServiceExternalIPs=true,KMSv1=true"}));
  EXPECT_EQ(std::ranges::count(said,
                               "Warning: setting GA feature gate. It will be removed in a "
                               "future release."),
            2);
  EXPECT_EQ(std::ranges::count(said,
                               "Warning: setting deprecated feature gate. It will be removed "
                               "in a future release."),
            2);
}

TEST(Completion, LoggingIsCheckedBeforeTheRest) {
  const Parsed bad_log = parse({"--logging-format=xml", "--proxy-mode=x"});
  EXPECT_EQ(bad_log.command_error,
            "initialize logging: logging.format: Invalid value: \"xml\": Unsupported log format");
  EXPECT_FALSE(bad_log.logging_checked);
  const Parsed bad_mode = parse({"--proxy-mode=bogus"});
  EXPECT_EQ(
      bad_mode.command_error,
      "failed validate: KubeProxyConfiguration.Mode.ProxyMode: Invalid value: \"bogus\": must "
      "be iptables, ipvs, nftables, userspace or blank (blank means the best-available proxy "
      "[currently "
      "iptables])");
  EXPECT_TRUE(bad_mode.logging_checked);
}

// --- with a file

TEST(WithFile, FlagsAreIgnoredButForTheKeptOnes) {
  const ConfigFile file("mode: ipvs\nhostnameOverride: from-file\n");
  const Config made =
      config({file.flag(), "--proxy-mode=nftables", "--oom-score-adj=1",
              "--feature-gates=NoSuchGate=true", "--healthz-port=0", "--cluster-cidr=10.0.0.0/8"});
  EXPECT_EQ(made.mode, "ipvs");
  EXPECT_EQ(made.oom_score_adj, -999);
  EXPECT_EQ(made.min_sync_period, 0s);
  EXPECT_EQ(made.hostname_override, "from-file");
  EXPECT_EQ(made.healthz_bind_address, "0.0.0.0:10256");
  EXPECT_TRUE(made.detect_local.cluster_cidrs.empty());
  EXPECT_EQ(config({file.flag(), "--hostname-override=Flag"}).hostname_override, "flag");
  EXPECT_EQ(options({file.flag()}).config_file, file.path());
}

TEST(WithFile, LoggingFlagsThatAreGivenWin) {
  const ConfigFile file("logging: {verbosity: 3, format: json, flushFrequency: 9s}\n");
  const Logging plain = config({file.flag()}).logging;
  EXPECT_EQ(plain.verbosity, 3U);
  EXPECT_EQ(plain.format, "json");
  EXPECT_EQ(plain.flush_frequency, 9s);
  const Logging changed = config({file.flag(), "-v=0", "--logging-format=text"}).logging;
  EXPECT_EQ(changed.verbosity, 0U);
  EXPECT_EQ(changed.format, "text");
  EXPECT_EQ(changed.flush_frequency, 9s);
}

TEST(WithFile, VmoduleEntriesOfTheFlagStandInFront) {
  const ConfigFile file("logging: {vmodule: [{filePattern: b, verbosity: 2}]}\n");
  const auto modules = config({file.flag(), "--vmodule=a=1"}).logging.vmodule;
  ASSERT_EQ(modules.size(), 2U);
  EXPECT_EQ(modules[0].pattern, "a");
  EXPECT_EQ(modules[1].pattern, "b");
}

TEST(WithFile, UnknownFieldsAreANotice) {
  const ConfigFile file("foo: 1\nipvs: {bar: 2}\nmode: ipvs\n");
  const Options parsed = options({file.flag()});
  ASSERT_FALSE(parsed.notices.empty());
  EXPECT_EQ(parsed.notices[0].message, "Using lenient decoding as strict decoding failed");
  EXPECT_EQ(parsed.notices[0].fields.at(0).value,
            "strict decoding error: unknown field \"foo\", unknown field \"ipvs.bar\"");
}

TEST(WithFile, ErrorsCarryTheirStage) {
  EXPECT_EQ(command_error({"--config=/does/not/exist"}),
            "failed complete: open /does/not/exist: no such file or directory");
  EXPECT_EQ(command_error({"--config=/"}), "failed complete: read /: is a directory");
  const ConfigFile wrong_type("oomScoreAdj: abc\n");
  EXPECT_EQ(command_error({wrong_type.flag()}),
            "failed complete: failed to decode: json: cannot unmarshal string into Go struct field "
            "KubeProxyConfiguration.oomScoreAdj of type int32");
}

TEST(WithFile, BadDurationIsADecodingError) {
  const ConfigFile file("configSyncPeriod: 5x\n");
  EXPECT_EQ(command_error({file.flag()}),
            "failed complete: failed to decode: time: unknown unit \"x\" in duration \"5x\"");
}

TEST(WithFile, SyntaxErrorIsADecodingError) {
  const ConfigFile file("a: [\n");
  EXPECT_THAT(
      command_error({file.flag()}),
      StartsWith("failed complete: failed to decode: error converting YAML to JSON: yaml: "));
}

// --- subcommands

TEST(Subcommand, FlagsWinOverTheFile) {
  const ConfigFile file(
      "mode: iptables\nhostnameOverride: a\nclusterCIDR: 10.0.0.0/8\n"
      "nftables: {syncPeriod: 44s}\n");
  const auto loaded = load_for_subcommand({.config_file = file.path(),
                                           .proxy_mode = "nftables",
                                           .hostname_override = " B ",
                                           .cluster_cidr = "11.0.0.0/8"});
  ASSERT_TRUE(loaded) << loaded.error().text;
  EXPECT_EQ(loaded->config.mode, "nftables");
  EXPECT_EQ(loaded->config.sync_period, 44s);
  EXPECT_EQ(loaded->config.hostname_override, "b");
  EXPECT_THAT(loaded->config.detect_local.cluster_cidrs, ElementsAre("11.0.0.0/8"));
}

TEST(Subcommand, NothingGivenMeansTheDefaults) {
  const auto loaded = load_for_subcommand({});
  ASSERT_TRUE(loaded) << loaded.error().text;
  EXPECT_EQ(loaded->config.mode, "iptables");
  EXPECT_EQ(loaded->config.detect_local_mode, "ClusterCIDR");
  EXPECT_EQ(loaded->version, "v1.36.4");
}

TEST(Subcommand, ChecksLikeTheDaemon) {
  const auto error = [](const Overrides& overrides) {
    const auto loaded = load_for_subcommand(overrides);
    return loaded ? "" : loaded.error().text;
  };
  EXPECT_THAT(error({.proxy_mode = "x"}), StartsWith("failed validate: "));
  EXPECT_EQ(error({.config_file = "/does/not/exist"}),
            "failed complete: open /does/not/exist: no such file or directory");
  EXPECT_EQ(error({.hostname_override = " "}),
            "failed complete: empty hostname-override is invalid");
}

// --- the log and the table

TEST(LogOptions, FollowTheLoggingSection) {
  const klog::Options plain = log_options({});
  EXPECT_EQ(plain.format, klog::Format::Text);
  const klog::Options json =
      log_options(config({"--logging-format=json", "-v=3", "--log-json-split-stream",
                          "--feature-gates=LoggingAlphaOptions=true"})
                      .logging);
  EXPECT_EQ(json.format, klog::Format::Json);
  EXPECT_EQ(json.verbosity, 3);
  EXPECT_TRUE(json.split_stream);
}

TEST(FlagTable, HasEachNameOnceAndTypesThatFitTheirPlaces) {
  std::set<std::string_view> names;
  FlagTarget target;
  for (const Flag& flag : flag_table()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_FALSE(flag.help.empty()) << flag.name;
    // Its own default is a value that it takes, but for how lists are shown.
    if (flag.type == FlagType::Strings) continue;
    EXPECT_TRUE(set_flag(flag, target, flag_text(flag, target), false)) << flag.name;
  }
}

// KP_UPDATE_GOLDEN=1 rewrites the file instead.
TEST(FlagTable, IsWhatTheDocumentationShows) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  const auto path = root / "docs" / "flags.md";
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
  if (const char* update = std::getenv("KP_UPDATE_GOLDEN"); update != nullptr && *update == '1') {
    std::ofstream(path) << flags_markdown();
  }
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(text, flags_markdown())
      << "docs/flags.md is not up to date; run this test with KP_UPDATE_GOLDEN=1 to rewrite it";
}

}  // namespace
}  // namespace config
