"""The command line and the configuration file, as a user meets them: every message that can be provoked from outside."""

import json
import os
import re

import pytest
import sandbox as boxes
from conftest import crashed, failure

HEADER = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

WEB = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.244.1.2], nodeName: node1}]
ports: [{port: 8080}]
"""


@pytest.fixture
def config(box):
    """Writes a configuration file with these lines behind apiVersion and kind, and gives its path."""
    return lambda text, header=HEADER: box.file("config.yaml", header + text)


@pytest.fixture
def resolved(box, config):
    """What --write-config-to makes of flags, and of a file if there is one."""

    def write(*flags, file=None):
        target = box.file("written.yaml", "")
        given = [] if file is None else [f"--config={config(file)}"]
        done = box.proxy(*given, *flags, f"--write-config-to={target}")
        assert done.returncode == 0, done.stderr
        assert f'"Wrote configuration" file="{target}"' in done.stderr
        return target.read_text()

    return write


def section(text, name):
    """The lines below a key of the root, without their indent, as a dict; or the value behind it."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(name + ":"))
    if lines[at] != name + ":":
        return lines[at].split(": ", 1)[1]
    inner = [line[2:] for line in lines[at + 1:]][:next(i for i, line in enumerate([*lines[at + 1:], "end"]) if not line.startswith((" ", "-")))]
    return dict(line.split(": ", 1) for line in inner if ": " in line)


# ---- flags: syntax

@pytest.mark.parametrize(("args", "error"), [
    (["--bogus"], "unknown flag: --bogus"),
    (["--bogus=1"], "unknown flag: --bogus"),
    *[([f"--{flag}"], f"unknown flag: --{flag}") for flag in (
        "windows-service", "source-vip", "network-name", "enable-dsr", "root-hnsendpoint-name", "forward-healthcheck-vip")],
    (["-x"], "unknown shorthand flag: 'x' in -x"),
    (["---a"], "bad flag syntax: ---a"),
    (["--config"], "flag needs an argument: --config"),
    (["-v"], "flag needs an argument: 'v' in -v"),
    (["--bind-address=xyz"], 'invalid argument "xyz" for "--bind-address" flag: "xyz" is not a valid IP address'),
    (["--bind_address=xyz"], 'invalid argument "xyz" for "--bind-address" flag: "xyz" is not a valid IP address'),
    (["--bind-address", "xyz"], 'invalid argument "xyz" for "--bind-address" flag: "xyz" is not a valid IP address'),
    (["--healthz-bind-address=foo:1"], 'invalid argument "foo:1" for "--healthz-bind-address" flag: "foo" is not a valid IP address'),
    (["--iptables-sync-period=foo"], 'invalid argument "foo" for "--iptables-sync-period" flag: time: invalid duration "foo"'),
    (["--iptables-sync-period=5"], 'invalid argument "5" for "--iptables-sync-period" flag: time: missing unit in duration "5"'),
    (["--ipvs-udp-timeout=5x"], 'invalid argument "5x" for "--ipvs-udp-timeout" flag: time: unknown unit "x" in duration "5x"'),
    (["--oom-score-adj=abc"], 'invalid argument "abc" for "--oom-score-adj" flag: strconv.ParseInt: parsing "abc": invalid syntax'),
    (["--conntrack-min=99999999999"],
     'invalid argument "99999999999" for "--conntrack-min" flag: strconv.ParseInt: parsing "99999999999": value out of range'),
    (["--kube-api-qps=fast"], 'invalid argument "fast" for "--kube-api-qps" flag: strconv.ParseFloat: parsing "fast": invalid syntax'),
    (["--masquerade-all=maybe"], 'invalid argument "maybe" for "--masquerade-all" flag: strconv.ParseBool: parsing "maybe": invalid syntax'),
    (["--feature-gates=Foo=xyz"],
     'invalid argument "Foo=xyz" for "--feature-gates" flag: invalid value of Foo: xyz, err: strconv.ParseBool: parsing "xyz": invalid syntax'),
    (["--feature-gates=Foo"], 'invalid argument "Foo" for "--feature-gates" flag: malformed pair, expect string=bool'),
    (["-v=x"], 'invalid argument "x" for "-v, --v" flag: strconv.ParseUint: parsing "x": invalid syntax'),
    (["--vmodule=foo"], 'invalid argument "foo" for "--vmodule" flag: "foo" does not have the pattern=N format'),
    (["--version=v1.2.3"],
     'invalid argument "v1.2.3" for "--version" flag: version "v1.2.3" must match major/minor/patch of default version "v1.36.4"'),
    (["--version", "--bogus"], "unknown flag: --bogus"),
])
def test_a_flag_that_cannot_be_read_gives_the_usage_and_its_reason(box, args, error):
    done = box.proxy(*args)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Usage:" in done.stderr
    assert done.stderr.splitlines()[-1] == "Error: " + error


@pytest.mark.parametrize(("args", "error"), [
    (["foo"], 'Error: "kube-proxy" does not take any arguments, got ["foo"]\n'),
    (["--proxy-mode=iptables", "foo", "bar"], 'Error: "kube-proxy" does not take any arguments, got ["foo" "bar"]\n'),
    (["--masquerade-all", "false"], 'Error: "kube-proxy" does not take any arguments, got ["false"]\n'),
])
def test_a_stray_word_is_an_error_without_usage(box, args, error):
    done = box.proxy(*args)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", error)


@pytest.mark.parametrize(("flag", "instead"), [("healthz-port", "--healthz-bind-address"), ("metrics-port", "--metrics-bind-address")])
def test_a_deprecated_flag_is_told_and_not_in_the_help(box, flag, instead):
    done = box.proxy(f"--{flag}=1", "--version")
    assert done.returncode == 0
    assert done.stderr == (f"Flag --{flag} has been deprecated, This flag is deprecated and will be removed in a future release. "
                           f"Please use {instead} instead.\n")
    assert f"--{flag} " not in box.proxy("--help").stdout


# ---- actions that end at once

@pytest.mark.parametrize("args", [["--version"], ["--version=true"], ["", "--version"], ["--version", "--config=/missing"],
                                  ["--version", "--proxy-mode=bogus"]])
def test_version_comes_before_everything_else(box, args):
    done = box.proxy(*args)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Kubernetes v1.36.4\n", "")


def test_raw_version_tells_all(box):
    done = box.proxy("--version=raw")
    assert done.returncode == 0
    assert re.fullmatch(r'version\.Info\{Major:"1", Minor:"36", EmulationMajor:"", EmulationMinor:"", MinCompatibilityMajor:"", '
                        r'MinCompatibilityMinor:"", GitVersion:"v1\.36\.4", GitCommit:"[^"]*", GitTreeState:"[^"]*", BuildDate:"[^"]*", '
                        r'GoVersion:"[^"]*", Compiler:"[^"]*", Platform:"linux/\w+"\}\n', done.stdout)


@pytest.mark.parametrize("flag", ["--version=v1.36.4-mine", "--version=v1.36.4", "--version=false"])
def test_a_version_to_report_goes_on(resolved, flag):
    assert "kind: KubeProxyConfiguration" in resolved(flag)


FLAGS = """bind-address bind-address-hard-fail boot-id-file cleanup cluster-cidr config config-sync-period conntrack-max-per-core
conntrack-min conntrack-tcp-be-liberal conntrack-tcp-timeout-close-wait conntrack-tcp-timeout-established conntrack-udp-timeout
conntrack-udp-timeout-stream detect-local-mode feature-gates healthz-bind-address help hostname-override init-only
iptables-localhost-nodeports iptables-masquerade-bit iptables-min-sync-period iptables-sync-period ipvs-exclude-cidrs
ipvs-min-sync-period ipvs-scheduler ipvs-strict-arp ipvs-sync-period ipvs-tcp-timeout ipvs-tcpfin-timeout ipvs-udp-timeout
kube-api-burst kube-api-content-type kube-api-qps kubeconfig log-flush-frequency log-json-info-buffer-size log-json-split-stream
log-text-info-buffer-size log-text-split-stream logging-format machine-id-file masquerade-all master metrics-bind-address
nodeport-addresses oom-score-adj pod-bridge-interface pod-interface-name-prefix profiling proxy-mode proxy-port-range
show-hidden-metrics-for-version udp-timeout v version vmodule write-config-to""".split()


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_goes_to_stdout_and_has_every_flag(box, flag):
    done = box.proxy(flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert [name for name in FLAGS if not re.search(rf"--{name}\b(?!-)", done.stdout)] == []


def test_every_flag_is_printed_at_verbosity_1_with_its_default(box):
    done = box.proxy("-v=1", "--proxy-mode=bogus")
    told = dict(re.findall(r'"FLAG: --([a-z0-9-]+)=\\"(.*)\\""', done.stderr))
    assert [name for name in FLAGS + ["healthz-port", "metrics-port"] if name not in told] == []
    expected = {
        "bind-address": "0.0.0.0", "healthz-bind-address": "0.0.0.0:10256", "metrics-bind-address": "127.0.0.1:10249",
        "healthz-port": "10256", "metrics-port": "10249", "kube-api-content-type": "application/vnd.kubernetes.protobuf",
        "kube-api-burst": "10", "kube-api-qps": "5", "config-sync-period": "15m0s", "iptables-masquerade-bit": "14",
        "iptables-localhost-nodeports": "true", "iptables-sync-period": "30s", "iptables-min-sync-period": "1s", "ipvs-sync-period": "30s",
        "ipvs-min-sync-period": "1s", "conntrack-max-per-core": "32768", "conntrack-min": "131072",
        "conntrack-tcp-timeout-established": "24h0m0s", "conntrack-tcp-timeout-close-wait": "1h0m0s", "conntrack-udp-timeout": "0s",
        "oom-score-adj": "-999", "logging-format": "text", "log-flush-frequency": "5s", "nodeport-addresses": "[]", "v": "1",
        "boot-id-file": "/proc/sys/kernel/random/boot_id", "machine-id-file": "/etc/machine-id,/var/lib/dbus/machine-id",
        "proxy-mode": "bogus", "proxy-port-range": "", "udp-timeout": "250ms", "detect-local-mode": "", "cluster-cidr": "", "profiling": "false"}
    assert {name: told[name] for name in expected} == expected


# ---- failed complete, initialize logging

@pytest.mark.parametrize(("text", "error"), [
    ("oomScoreAdj: much\n", "failed to decode: json: cannot unmarshal string into Go struct field KubeProxyConfiguration.oomScoreAdj of type int32"),
    ("bindAddress: 7\n", "failed to decode: json: cannot unmarshal number into Go struct field KubeProxyConfiguration.bindAddress of type string"),
    ("conntrack: {min: [1]}\n",
     "failed to decode: json: cannot unmarshal array into Go struct field KubeProxyConfiguration.conntrack.min of type int32"),
    ("iptables: {masqueradeAll: 1}\n",
     "failed to decode: json: cannot unmarshal number into Go struct field KubeProxyConfiguration.iptables.masqueradeAll of type bool"),
    ("oomScoreAdj: 99999999999\n",
     "failed to decode: json: cannot unmarshal number 99999999999 into Go struct field KubeProxyConfiguration.oomScoreAdj of type int32"),
    ("configSyncPeriod: 5x\n", 'failed to decode: time: unknown unit "x" in duration "5x"'),
    ("featureGates: {Foo: true}\n", "unrecognized feature gate: Foo"),
    ("featureGates: {NFTablesProxyMode: false}\n", "cannot set feature gate NFTablesProxyMode to false, feature is locked to true"),
    ("featureGates: {GangScheduling: true}\n", "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"),
])
def test_a_file_that_cannot_be_used_is_told(box, config, text, error):
    done = box.proxy(f"--config={config(text)}")
    assert (done.returncode, done.stdout) == (1, "")
    assert failure(done) == "failed complete: " + error


@pytest.mark.parametrize(("header", "start"), [
    ("", "failed complete: failed to decode: Object 'Kind' is missing in '"),
    ("apiVersion: kubeproxy.config.k8s.io/v1alpha1\n", "failed complete: failed to decode: Object 'Kind' is missing in 'apiVersion"),
    ("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: Foo\n",
     'failed complete: failed to decode: no kind "Foo" is registered for version "kubeproxy.config.k8s.io/v1alpha1" in scheme "'),
    ("apiVersion: kubeproxy.config.k8s.io/v2\nkind: KubeProxyConfiguration\n",
     'failed complete: failed to decode: no kind "KubeProxyConfiguration" is registered for version "kubeproxy.config.k8s.io/v2" in scheme "'),
    (HEADER + "iptables: {syncPeriod: 5}\n", "failed complete: failed to decode: json: cannot unmarshal number into Go "),
    (HEADER + "mode: [\n", "failed complete: failed to decode: "),
    ("\0\1\2\3", "failed complete: failed to decode: "),
    (HEADER + "a: &a [*a]\n", "failed complete: failed to decode: "),
])
def test_a_file_of_another_kind_or_shape_is_told(box, config, header, start):
    done = box.proxy(f"--config={config('', header)}")
    assert done.returncode == 1
    assert failure(done).startswith(start)


@pytest.mark.parametrize(("args", "error"), [
    (["--config=/missing/x"], "failed complete: open /missing/x: no such file or directory"),
    (["--config=/tmp"], "failed complete: read /tmp: is a directory"),
    (["--hostname-override=  "], "failed complete: empty hostname-override is invalid"),
    (["--feature-gates=Foo=true"], "failed complete: unrecognized feature gate: Foo"),
    (["--feature-gates=InOrderInformers=false"],
     "failed complete: cannot set feature gate InOrderInformers to false, feature is locked to true"),
    (["--feature-gates=AtomicFIFO=false,StaleControllerConsistencyJob=false,StaleControllerConsistencyReplicaSet=false,"
      "StaleControllerConsistencyStatefulSet=false"],
     "failed complete: StaleControllerConsistencyDaemonSet is enabled, but depends on features that are disabled: [AtomicFIFO]"),
    (["--logging-format=xml"], 'initialize logging: logging.format: Invalid value: "xml": Unsupported log format'),
    (["--log-flush-frequency=0s"], 'initialize logging: logging.flushFrequency: Invalid value: "0s": Must be greater than zero'),
    (["--vmodule=a=1", "--logging-format=json"], "initialize logging: logging.vmodule: Forbidden: Only supported for text log format"),
    (["--log-json-split-stream"], "initialize logging: logging.options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"),
    (["--log-text-info-buffer-size=4Ki"],
     "initialize logging: logging.options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled"),
])
def test_flags_that_do_not_lead_to_a_configuration_are_told(box, args, error):
    done = box.proxy(*args)
    assert (done.returncode, done.stdout, failure(done)) == (1, "", error)


@pytest.mark.parametrize(("gate", "stage"), [("AllowServiceExternalIPs=true", "GA"), ("KMSv1=true", "deprecated")])
def test_a_gate_that_will_go_is_warned_about_twice(box, gate, stage):
    done = box.proxy(f"--feature-gates={gate}", "--oom-score-adj=5000")
    assert done.stderr.count(f"Warning: setting {stage} feature gate. It will be removed in a future release.") == 2


# ---- strict, then lenient

@pytest.mark.parametrize(("text", "error"), [
    ("foo: 1\nipvs: {bar: 2}\n", r'strict decoding error: unknown field \"foo\", unknown field \"ipvs.bar\"'),
    ("Mode: ipvs\n", r'strict decoding error: unknown field \"Mode\"'),
    ("portRnge: x\n", r'strict decoding error: unknown field \"portRnge\"'),
])
def test_unknown_fields_are_told_and_the_rest_is_used(box, config, text, error):
    done = box.proxy(f"--config={config(text + 'oomScoreAdj: 5000')}")
    assert f'"Using lenient decoding as strict decoding failed" err="{error}"' in done.stderr
    assert "OOMScoreAdj: Invalid value: 5000" in failure(done)


def test_of_a_key_that_is_there_twice_the_last_counts(box, config, resolved):
    text = "clusterCIDR: 10.1.0.0/16\nmode: iptables\nclusterCIDR: 10.2.0.0/16\n"
    assert section(resolved(file=text), "clusterCIDR") == "10.2.0.0/16"
    done = box.proxy(f"--config={config(text)}", "--write-config-to=/dev/null")
    assert 'line 5: key "clusterCIDR" already set in map' in done.stderr.replace('\\"', '"')


def test_null_is_the_same_as_absent(resolved):
    assert section(resolved(file="oomScoreAdj: null\nclusterCIDR: ~\n"), "oomScoreAdj") == "-999"


def test_json_is_read_as_well(box):
    path = box.file("config.json", json.dumps({"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
                                               "oomScoreAdj": 7000}))
    assert "OOMScoreAdj: Invalid value: 7000" in failure(box.proxy(f"--config={path}"))


# ---- validation

PATH = "KubeProxyConfiguration."
CONNTRACK = PATH + "KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration."
LOCAL = PATH + "DetectLocalConfiguration."
NOT_NEGATIVE = "must be greater than or equal to 0"


@pytest.mark.parametrize(("text", "error"), [
    ("iptables: {masqueradeBit: 32}", PATH + "KubeProxyIPTablesConfiguration.MasqueradeBit: Invalid value: 32: must be within the range [0, 31]"),
    ("iptables: {masqueradeBit: -1}", PATH + "KubeProxyIPTablesConfiguration.MasqueradeBit: Invalid value: -1: must be within the range [0, 31]"),
    ("mode: nftables\nnftables: {masqueradeBit: 99}",
     PATH + "KubeProxyNFTablesConfiguration.MasqueradeBit: Invalid value: 99: must be within the range [0, 31]"),
    ("mode: ipvs\nipvs: {tcpTimeout: -1s}", PATH + f'KubeProxyIPVSConfiguration.TCPTimeout: Invalid value: "-1s": {NOT_NEGATIVE}'),
    ("mode: ipvs\nipvs: {tcpFinTimeout: -1s}", PATH + f'KubeProxyIPVSConfiguration.TCPFinTimeout: Invalid value: "-1s": {NOT_NEGATIVE}'),
    ("mode: ipvs\nipvs: {udpTimeout: -1s}", PATH + f'KubeProxyIPVSConfiguration.UDPTimeout: Invalid value: "-1s": {NOT_NEGATIVE}'),
    ("mode: ipvs\nipvs: {excludeCIDRs: [10.0.0.0/8, x]}",
     PATH + 'KubeProxyIPVSConfiguration.ExcludeCidrs[1]: Invalid value: "x": must be a valid CIDR'),
    ("conntrack: {maxPerCore: -1}", CONNTRACK + f"MaxPerCore: Invalid value: -1: {NOT_NEGATIVE}"),
    ("conntrack: {min: -1}", CONNTRACK + f"Min: Invalid value: -1: {NOT_NEGATIVE}"),
    ("conntrack: {tcpEstablishedTimeout: -5s}", CONNTRACK + f'TCPEstablishedTimeout: Invalid value: "-5s": {NOT_NEGATIVE}'),
    ("conntrack: {tcpCloseWaitTimeout: -5s}", CONNTRACK + f'TCPCloseWaitTimeout: Invalid value: "-5s": {NOT_NEGATIVE}'),
    ("conntrack: {udpTimeout: -5s}", CONNTRACK + f'UDPTimeout: Invalid value: "-5s": {NOT_NEGATIVE}'),
    ("conntrack: {udpStreamTimeout: -5s}", CONNTRACK + f'UDPStreamTimeout: Invalid value: "-5s": {NOT_NEGATIVE}'),
    ("oomScoreAdj: -1001", PATH + "KubeProxyLinuxConfiguration.OOMScoreAdj: Invalid value: -1001: must be within the range [-1000, 1000]"),
    ("mode: kernelspace", PATH + 'Mode.ProxyMode: Invalid value: "kernelspace": must be iptables, ipvs, nftables, userspace or blank (blank '
                                 "means the best-available proxy [currently iptables])"),
    ("mode: userspace\nportRange: nonsense",
     PATH + 'PortRange: Invalid value: "nonsense": must be a valid port range (e.g. 300-2000)'),
    ("mode: userspace\nportRange: 1-70000", PATH + 'PortRange: Invalid value: "1-70000": must be a valid port range (e.g. 300-2000)'),
    ("mode: userspace\nudpIdleTimeout: -1s", PATH + 'UDPIdleTimeout: Invalid value: "-1s": must be greater than 0'),
    ("clientConnection: {burst: -1}", PATH + f"ClientConnection.Burst: Invalid value: -1: {NOT_NEGATIVE}"),
    ("configSyncPeriod: -1s", PATH + 'ConfigSyncPeriod: Invalid value: "-1s": must be greater than 0'),
    ("iptables: {minSyncPeriod: 40s}",
     PATH + 'SyncPeriod: Invalid value: "40s": must be greater than or equal to KubeProxyConfiguration.MinSyncPeriod'),
    ("iptables: {minSyncPeriod: -1s}", PATH + f'MinSyncPeriod: Invalid value: "-1s": {NOT_NEGATIVE}'),
    ("bindAddress: foo", PATH + 'BindAddress: Invalid value: "foo": not a valid textual representation of an IP address'),
    ("healthzBindAddress: foo", PATH + 'HealthzBindAddress: Invalid value: "foo": must be IP:port'),
    ("healthzBindAddress: foo:80", PATH + 'HealthzBindAddress: Invalid value: "foo": must be a valid IP'),
    ("metricsBindAddress: 1.2.3.4:99999", PATH + 'MetricsBindAddress: Invalid value: "99999": must be a valid port'),
    ("nodePortAddresses: [10.0.0.0]", PATH + 'NodePortAddresses[0]: Invalid value: "10.0.0.0": must be a valid CIDR'),
    ("nodePortAddresses: [primary, 10.0.0.0/8]",
     PATH + "NodePortAddresses[0]: Invalid value: \"primary\": can't use both 'primary' and CIDRs"),
    ('showHiddenMetricsForVersion: "1.2"',
     PATH + 'ShowHiddenMetricsForVersion: Invalid value: "1.2": invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: '
            "Invalid value: \"1.2\": must be omitted or have the value '1.35'; only the previous minor version is allowed"),
    ("detectLocalMode: Foo", PATH + 'DetectLocalMode: Unsupported value: "Foo": supported values: "ClusterCIDR", "NodeCIDR", '
                                    '"BridgeInterface", "InterfaceNamePrefix", ""'),
    ("detectLocalMode: BridgeInterface", LOCAL + 'InterfaceName: Invalid value: "": must not be empty'),
    ("detectLocalMode: InterfaceNamePrefix", LOCAL + 'InterfacePrefix: Invalid value: "": must not be empty'),
    ("clusterCIDR: 10.0.0.0/8, fd00::/8",
     LOCAL + 'ClusterCIDRs[1]: Invalid value: " fd00::/8": must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)'),
    ("clusterCIDR: 10.0.0.0/8,11.0.0.0/8",
     LOCAL + 'ClusterCIDRs: Invalid value: ["10.0.0.0/8","11.0.0.0/8"]: must be a either a single CIDR or dual-stack pair of CIDRs '
             "(e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]"),
])
def test_a_value_out_of_bounds_is_told_with_its_path(box, config, text, error):
    done = box.proxy(f"--config={config(text)}")
    assert (done.returncode, done.stdout, failure(done)) == (1, "", "failed validate: " + error)


@pytest.mark.parametrize(("args", "error"), [
    (["--cluster-cidr="], LOCAL + 'ClusterCIDRs[0]: Invalid value: "": must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)'),
    (["--metrics-port=0"], PATH + 'MetricsBindAddress: Invalid value: "": must be IP:port'),
    (["--proxy-mode=bogus", "--oom-score-adj=2000"],
     "[" + PATH + "KubeProxyLinuxConfiguration.OOMScoreAdj: Invalid value: 2000: must be within the range [-1000, 1000], " + PATH +
     'Mode.ProxyMode: Invalid value: "bogus": must be iptables, ipvs, nftables, userspace or blank (blank means the best-available '
     "proxy [currently iptables])]"),
    (["--proxy-mode=userspace", "--udp-timeout=0"], PATH + 'UDPIdleTimeout: Invalid value: "0s": must be greater than 0'),
    # An address without a port is completed only where the configuration is not written out.
    (["--healthz-bind-address=1.2.3.4", "--write-config-to=/dev/null"], PATH + 'HealthzBindAddress: Invalid value: "1.2.3.4": must be IP:port'),
])
def test_flags_are_validated_like_the_file(box, args, error):
    done = box.proxy(*args)
    assert (done.returncode, failure(done)) == (1, "failed validate: " + error)


@pytest.mark.parametrize("text", [
    "mode: iptables\nnftables: {masqueradeBit: 99}", "mode: iptables\nipvs: {tcpTimeout: -1s, excludeCIDRs: [x]}", "ipvs: {scheduler: bogus}",
    "detectLocalMode: NodeCIDR\nclusterCIDR: bogus", "clientConnection: {kubeconfig: /missing, contentType: x, qps: -1}",
    "nodePortAddresses: [primary]", "portRange: nonsense", "udpIdleTimeout: -1s", "winkernel: {networkName: x}", "bindAddress: 010.0.0.1"])
def test_settings_that_do_not_count_here_are_not_validated(resolved, text):
    assert resolved(file=text)


# ---- --write-config-to

DEFAULTS = """apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 10
  contentType: application/vnd.kubernetes.protobuf
  kubeconfig: ""
  qps: 5
clusterCIDR: ""
configSyncPeriod: 15m0s
conntrack:
  maxPerCore: 32768
  min: 131072
  tcpBeLiberal: false
  tcpCloseWaitTimeout: 1h0m0s
  tcpEstablishedTimeout: 24h0m0s
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ClusterCIDR
enableProfiling: false
healthzBindAddress: 0.0.0.0:10256
hostnameOverride: ""
iptables:
  localhostNodePorts: true
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 1s
  syncPeriod: 30s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 5s
  format: text
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: 127.0.0.1:10249
mode: iptables
nftables:
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: -999
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
"""


def test_defaults_are_written_out_and_read_back(box, resolved):
    assert resolved() == DEFAULTS
    assert resolved(file="") == DEFAULTS
    path = box.file("again.yaml", DEFAULTS)
    done = box.proxy(f"--config={path}", f"--write-config-to={path}.out")
    assert "lenient" not in done.stderr
    assert open(f"{path}.out", encoding="utf8").read() == DEFAULTS


@pytest.mark.parametrize(("mode", "active", "min_sync"), [("iptables", "iptables", "1s"), ("nftables", "nftables", "1s"), ("ipvs", "ipvs", "0s"),
                                                         ("userspace", "iptables", "1s")])
def test_only_the_section_of_the_mode_has_its_periods(resolved, mode, active, min_sync):
    text = resolved(file=f"mode: {mode}\n")
    for name in ("iptables", "ipvs", "nftables"):
        periods = ("30s", min_sync) if name == active else ("0s", "0s")
        assert (section(text, name)["syncPeriod"], section(text, name)["minSyncPeriod"]) == periods, name


@pytest.mark.parametrize(("mode", "place"), [("iptables", "iptables"), ("ipvs", "iptables"), ("nftables", "nftables")])
def test_masquerade_all_is_written_where_the_mode_reads_it(resolved, mode, place):
    text = resolved("--masquerade-all", f"--proxy-mode={mode}")
    assert [name for name in ("iptables", "nftables") if section(text, name)["masqueradeAll"] == "true"] == [place]


def test_periods_of_flags_go_to_the_section_of_the_mode(resolved):
    flags = ["--iptables-sync-period=20s", "--iptables-min-sync-period=2s", "--ipvs-sync-period=40s", "--ipvs-min-sync-period=4s"]
    assert section(resolved(*flags, "--proxy-mode=nftables"), "nftables")["syncPeriod"] == "20s"
    ipvs = section(resolved(*flags, "--proxy-mode=ipvs"), "ipvs")
    assert (ipvs["syncPeriod"], ipvs["minSyncPeriod"]) == ("40s", "4s")


@pytest.mark.parametrize(("file", "key", "value"), [
    ("bindAddress: '::'\n", "healthzBindAddress", "'[::]:10256'"),
    ("bindAddress: '::'\n", "metricsBindAddress", "'[::1]:10249'"),
    ("healthzBindAddress: 1.2.3.4\n", "healthzBindAddress", "1.2.3.4:10256"),
    ("metricsBindAddress: 'fd00::1'\n", "metricsBindAddress", "'[fd00::1]:10249'"),
    ("iptables: {minSyncPeriod: 0s}\n", "iptables", {"minSyncPeriod": "1s"}),
    ("clientConnection: {qps: 0, burst: 0}\n", "clientConnection", {"qps": "5", "burst": "10"}),
    ("conntrack: {tcpEstablishedTimeout: 0s, maxPerCore: 0}\n", "conntrack", {"tcpEstablishedTimeout": "0s", "maxPerCore": "0"}),
    ("iptables: {masqueradeBit: 0, localhostNodePorts: false}\n", "iptables", {"masqueradeBit": "0", "localhostNodePorts": "false"}),
    ("logging: {flushFrequency: 7000000000}\n", "logging", {"flushFrequency": "7s"}),
    ("configSyncPeriod: 1h30m\n", "configSyncPeriod", "1h30m0s"),
    ("iptables: {syncPeriod: 1.5s}\n", "iptables", {"syncPeriod": "1.5s"}),
])
def test_a_file_is_completed_with_defaults(resolved, file, key, value):
    written = section(resolved(file=file), key)
    assert (written if isinstance(value, str) else {k: written[k] for k in value}) == value


def test_mode_nftables_opens_node_ports_on_the_primary_address(resolved):
    assert "nodePortAddresses:\n- primary\n" in resolved("--proxy-mode=nftables")


def test_a_bind_address_among_the_flags_leaves_the_servers_alone(resolved):
    text = resolved("--bind-address=::")
    assert (section(text, "healthzBindAddress"), section(text, "metricsBindAddress")) == ("0.0.0.0:10256", "127.0.0.1:10249")


def test_a_configuration_that_cannot_be_written_is_an_error(box):
    done = box.proxy("--write-config-to=/missing/folder/x")
    assert done.returncode == 1
    assert failure(done).startswith("open /missing/folder/x: ")


def test_a_configuration_that_cannot_be_written_is_told_with_the_reason(box):
    assert failure(box.proxy("--write-config-to=/missing/folder/x")) == "open /missing/folder/x: no such file or directory"


# ---- precedence

IGNORED = ["--bind-address=1.1.1.1", "--cluster-cidr=10.9.0.0/16", "--proxy-mode=ipvs", "--oom-score-adj=1", "--masquerade-all",
           "--nodeport-addresses=10.0.0.0/8", "--iptables-sync-period=7s", "--feature-gates=NoSuchGate=true", "--kubeconfig=/x", "--profiling",
           "--conntrack-min=5", "--healthz-bind-address=1.2.3.4:5", "--healthz-port=0", "--detect-local-mode=Foo"]


def test_with_a_file_most_flags_are_ignored(resolved):
    assert resolved(*IGNORED, file="") == DEFAULTS


def test_a_flag_that_is_ignored_must_still_be_readable(box, config):
    done = box.proxy(f"--config={config('')}", "--bind-address=xyz")
    assert done.stderr.splitlines()[-1] == 'Error: invalid argument "xyz" for "--bind-address" flag: "xyz" is not a valid IP address'


@pytest.mark.parametrize(("flags", "file", "key", "value"), [
    (["--hostname-override= Node-A "], "hostnameOverride: other\n", "hostnameOverride", "node-a"),
    (["--hostname-override="], "hostnameOverride: other\n", "hostnameOverride", "other"),
    (["-v=3"], "logging: {verbosity: 1}\n", "logging", {"verbosity": "3"}),
    ([], "logging: {verbosity: 1}\n", "logging", {"verbosity": "1"}),
    (["--log-flush-frequency=9s"], "logging: {flushFrequency: 2s}\n", "logging", {"flushFrequency": "9s"}),
    (["--logging-format=text"], "logging: {format: json}\n", "logging", {"format": "text"}),
])
def test_some_flags_win_over_the_file(resolved, flags, file, key, value):
    written = section(resolved(*flags, file=file), key)
    assert (written if isinstance(value, str) else {k: written[k] for k in value}) == value


def test_vmodule_of_the_flag_stands_before_that_of_the_file(resolved):
    text = resolved("--vmodule=a=1", file="logging: {vmodule: [{filePattern: b, verbosity: 2}]}\n")
    assert text.index("filePattern: a") < text.index("filePattern: b")


def test_lists_are_comma_separated_repeated_or_both(resolved):
    text = resolved("--nodeport-addresses=10.0.0.0/8,fd00::/8", "--nodeport-addresses=11.0.0.0/8")
    assert "nodePortAddresses:\n- 10.0.0.0/8\n- fd00::/8\n- 11.0.0.0/8\n" in text


@pytest.mark.parametrize(("args", "line"), [
    ([], "! -s 10.1.0.0/16"),
    (["--cluster-cidr=10.2.0.0/16"], "! -s 10.2.0.0/16"),
])
def test_for_subcommands_a_flag_wins_over_the_file(box, config, args, line):
    path = config("clusterCIDR: 10.1.0.0/16\nmode: iptables\n")
    done = box.proxy("render", "-f", box.file("web.yaml", WEB), "--config", path, *args)
    assert done.returncode == 0, done.stderr
    assert line in done.stdout


def test_for_subcommands_the_name_of_the_node_and_the_mode_win_too(box, config):
    path = config("hostnameOverride: other\nmode: nftables\n")
    web = box.file("web.yaml", WEB.replace("clusterIP:", "internalTrafficPolicy: Local, clusterIP:"))
    assert "table ip kube-proxy" in box.proxy("render", "-f", web, "--config", path).stdout
    other = box.proxy("render", "-f", web, "--config", path, "--proxy-mode=iptables")
    assert "has no local endpoints" in other.stdout
    ours = box.proxy("render", "-f", web, "--config", path, "--proxy-mode=iptables", "--hostname-override=NODE1")
    assert "-j KUBE-SVL-" in ours.stdout


# ---- subcommands

@pytest.mark.parametrize("command", ["render", "apply", "diff"])
@pytest.mark.parametrize(("args", "error"), [
    ([], "no manifests: give a file or a folder with -f"),
    (["--bogus"], "unknown flag: --bogus"),
    (["-f"], "flag needs an argument: -f"),
    (["web.yaml"], 'unexpected argument "web.yaml"; manifests are given with -f'),
    (["-f", "x", "--family=ipx"], '--family takes ipv4 or ipv6, not "ipx"'),
    (["-f", "x", "-o", "xml"], '-o takes text or json, not "xml"'),
])
def test_a_subcommand_says_what_it_does_not_understand(box, command, args, error):
    done = box.proxy(command, *args)
    assert (done.returncode, done.stdout) == (2 if command == "diff" else 1, "")
    assert done.stderr == f"kube-proxy: {command}: {error}\nkube-proxy: see `kube-proxy {command} --help`\n"


@pytest.mark.parametrize("command", ["render", "apply", "diff"])
def test_a_subcommand_has_its_own_help(box, command):
    done = box.proxy(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"kube-proxy {command} -f MANIFESTS" in done.stdout


@pytest.mark.parametrize(("args", "error"), [
    (["--config=/missing/x"], "failed complete: open /missing/x: no such file or directory"),
    (["--cluster-cidr=x"], "failed validate: " + LOCAL + 'ClusterCIDRs[0]: Invalid value: "x": must be a valid CIDR block '
                           "(e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)"),
    (["--hostname-override=  "], "failed complete: empty hostname-override is invalid"),
])
def test_a_subcommand_validates_as_the_daemon_does(box, args, error):
    done = box.proxy("render", "-f", box.file("web.yaml", WEB), *args)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"kube-proxy: {error}\n")


def test_manifests_from_standard_input(box):
    done = box.proxy("render", "-f", "-", "--family", "ipv4", input=WEB)
    assert done.returncode == 0, done.stderr
    assert "-d 10.96.0.10/32" in done.stdout
    broken = box.proxy("render", "-f", "-", input="kind: [\n")
    assert broken.returncode == 1
    assert broken.stderr.startswith("kube-proxy: -:2: ")


def test_output_that_cannot_be_written_is_an_error(box):
    done = box.run("sh", "-c", f'exec {boxes.BINARY} render -f {box.file("web.yaml", WEB)} >/dev/full')
    assert done.returncode != 0


def test_an_interface_name_with_a_line_break_does_not_crash(box, config):
    path = config('detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: "a\\nb"}\n')
    assert not crashed(box.proxy("render", "-f", box.file("web.yaml", WEB), "--config", path))


# ---- the daemon's start

@pytest.mark.skipif(os.path.exists("/proc/net/ip_vs"), reason="this kernel has IPVS")
def test_mode_ipvs_says_what_the_kernel_lacks(box, config):
    path = config("mode: ipvs\nconntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n")
    done = box.proxy(f"--config={path}", f"--manifests={box.folder}")
    error = "can't use the IPVS proxier: ipvs not supported by the kernel: this kernel has no IPVS; load it on the host with `modprobe ip_vs`"
    assert (done.returncode, failure(done)) == (1, error)


IN_CLUSTER = "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"


@pytest.mark.parametrize("args", [[], ["--manifests="]])
def test_without_kubeconfig_and_manifests_it_must_be_in_a_pod(box, args):
    done = box.proxy(*args)
    assert (done.returncode, failure(done)) == (1, IN_CLUSTER)
    assert "Neither kubeconfig file nor master URL was specified, falling back to in-cluster config" in done.stderr


def test_a_kubeconfig_that_is_not_there_is_an_error(box):
    done = box.proxy("--kubeconfig=/missing/kubeconfig")
    assert (done.returncode, failure(done)) == (1, "stat /missing/kubeconfig: no such file or directory")


def test_manifests_that_are_not_there_are_an_error(box):
    done = box.proxy("--manifests=/missing/folder")
    assert done.returncode == 1
    assert "manifests" in failure(done)
    assert "KUBE" not in box.save()


def test_a_minimum_above_an_hour_ends_the_start(box):
    done = box.proxy("--iptables-min-sync-period=2h", "--iptables-sync-period=3h", f"--manifests={box.folder}")
    assert (done.returncode, failure(done)) == (1, "sync-runner: maxInterval (1h0m0s) must be >= minInterval (2h0m0s)")


def test_nothing_of_all_this_programmed_anything(box):
    assert "KUBE" not in box.save("ipv4") + box.save("ipv6")


# ---- the log

def test_text_lines_have_klogs_shape(box):
    done = box.proxy("--oom-score-adj=2000")
    for line in done.stderr.splitlines():
        assert re.fullmatch(r'[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} {1,7}\d+ [a-z_]+\.cpp:\d+\] ".*', line), line


def test_json_lines_come_once_the_format_applies(box):
    done = box.proxy("--logging-format=json", "--oom-score-adj=2000")
    lines = done.stderr.splitlines()
    assert lines[0].endswith('"Using iptables proxy"'), "before the configuration of the log applies, lines are text"
    error = json.loads(lines[-1])
    assert list(error) == ["ts", "caller", "msg", "err"]
    assert (error["msg"], error["err"].split(":")[0]) == ("command failed", "failed validate")
    assert re.fullmatch(r"\w+/\w+\.cpp:\d+", error["caller"])
    running = box.proxy("--logging-format=json", "-v=1", f"--manifests={box.folder}/nothing")
    parsed = [json.loads(line) for line in running.stderr.splitlines() if line.startswith("{")]
    assert {line["v"] for line in parsed if "err" not in line} == {1}
    assert [line["msg"] for line in parsed][-2:] == ["Error running ProxyServer", "command failed"]


def test_the_format_can_come_from_the_file_and_a_flag_wins(box, config):
    path = config("logging: {format: json}\noomScoreAdj: 2000\n")
    assert json.loads(box.proxy(f"--config={path}").stderr.splitlines()[-1])["msg"] == "command failed"
    assert failure(box.proxy(f"--config={path}", "--logging-format=text")) is not None


def test_errors_before_the_format_applies_are_text(box):
    assert failure(box.proxy("--logging-format=json", "--config=/missing")) == "failed complete: open /missing: no such file or directory"
