"""The commands in mode nftables: what they print, what they leave in the kernel, and how they end."""

import json
import os

import pytest
import sandbox as boxes
from conftest import failure

MODE = "--proxy-mode=nftables"
NODE_PORTS = "nodePortAddresses"

OBJECTS = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  ports: [{name: http, port: 80, protocol: TCP, nodePort: 30080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.244.1.2]}, {addresses: [10.244.2.3]}]
ports: [{name: http, port: 8080, protocol: TCP}]
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: kubernetes}
spec: {cidrs: [10.96.0.0/16]}
"""


@pytest.fixture
def node():
    """Unlike the box of the other files it is changed, so that each test has its own."""
    with boxes.sandbox() as made:
        made.objects = made.file("objects.yaml", OBJECTS)
        yield made


def command(node, name, *args):
    return node.proxy(name, "-f", node.objects, *(args or [MODE]))


def configured(node, body):
    path = node.file("config.yaml", "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
                     f"mode: nftables\nhostnameOverride: node1\n{body}\n")
    return ["--config", path]


def unprivileged(node, *args):
    os.chmod(node.folder, 0o755)
    return node.run("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", boxes.BINARY, *args)


def route_localnet(node):
    return node.run("cat", "/proc/sys/net/ipv4/conf/all/route_localnet").stdout.strip()


def test_apply_leaves_what_render_prints_and_the_second_one_writes_nothing(node):
    rendered = command(node, "render", MODE, "--family=ipv4")
    assert rendered.stdout.startswith("# IPv4, as nft list table ip kube-proxy would print it\ntable ip kube-proxy {\n")
    assert command(node, "apply").stdout.count(" elements written\n") == 2
    listed = node.run("nft", "list", "table", "ip", "kube-proxy")
    assert listed.stdout == rendered.stdout.split("\n", 1)[1]
    assert command(node, "apply").stdout == "IPv4: nothing to change\nIPv6: nothing to change\n"
    assert node.save() == "", "iptables has nothing to do with it"


def test_render_needs_no_root(node):
    done = unprivileged(node, "render", "-f", node.objects, MODE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == command(node, "render").stdout


def test_apply_and_diff_without_root_say_what_to_do(node):
    for name, status in (("apply", 1), ("diff", 2)):
        done = unprivileged(node, name, "-f", node.objects, MODE)
        assert done.returncode == status, name
        assert "CAP_NET_ADMIN" in done.stderr, done.stderr


def test_no_program_is_needed(node):
    for name, status in (("render", 0), ("diff", 1), ("apply", 0), ("diff", 0)):
        done = node.run("/usr/bin/env", "PATH=/nonexistent", boxes.BINARY, name, "-f", node.objects, MODE)
        assert (done.returncode, done.stderr) == (status, ""), name


def test_diff_says_what_apply_would_change(node):
    new = command(node, "diff")
    assert new.returncode == 1
    assert "@@ ip kube-proxy (new)\n" in new.stdout
    assert '+element service-ips: 10.96.0.10 . tcp . 80 comment "default/web:http" : goto endpoints/2\n' in new.stdout
    assert command(node, "apply").returncode == 0
    same = command(node, "diff")
    assert (same.returncode, same.stdout) == (0, "# IPv4: nothing would change\n# IPv6: nothing would change\n")


@pytest.mark.parametrize(("deed", "line"), [
    ("delete element ip kube-proxy cluster-ips { 10.96.0.10 }", "+element cluster-ips: 10.96.0.10"),
    ("add element ip kube-proxy cluster-ips { 10.96.0.99 }", "-element cluster-ips: 10.96.0.99"),
    ("flush chain ip kube-proxy services", "+rule services 1: ip daddr . meta l4proto . th dport vmap @service-ips"),
    ("add rule ip kube-proxy masquerading drop", "-rule masquerading 3: another rule"),
    ("delete element ip kube-proxy service-cidrs { 10.96.0.0/16 }", "+element service-cidrs: 10.96.0.0/16"),
])
def test_diff_sees_what_somebody_else_has_done(node, deed, line):
    assert command(node, "apply").returncode == 0
    assert node.run("nft", deed).returncode == 0
    done = command(node, "diff", MODE, "--family=ipv4")
    assert done.returncode == 1
    assert line in done.stdout.splitlines(), done.stdout
    assert command(node, "apply").returncode == 0
    assert command(node, "diff").returncode == 0


def test_output_for_programs_is_json(node):
    rendered = json.loads(command(node, "render", MODE, "-o", "json").stdout)
    assert rendered["mode"] == "nftables"
    family = rendered["families"][0]
    assert (family["family"], family["ports"][0]["name"]) == ("IPv4", "default/web:http")
    table = family["tables"][0]
    assert table["name"] == "ip kube-proxy"
    sets = {one["name"]: one["elements"] for one in table["sets"]}
    assert (sets["cluster-ips"], len(sets["endpoints"])) == (["10.96.0.10"], 2)
    chains = {one["name"]: one for one in table["chains"]}
    assert (chains["nat-prerouting"]["priority"], chains["nat-prerouting"]["rules"]) == (-100, ["jump services"])
    diff = json.loads(command(node, "diff", MODE, "-o", "json").stdout)["families"][0]["tables"][0]
    assert (diff["table"], diff["state"], diff["removed"]) == ("ip kube-proxy", "new", [])
    applied = json.loads(command(node, "apply", MODE, "-o", "json").stdout)["families"]
    assert applied[0]["elements"] > 0
    assert json.loads(command(node, "diff", MODE, "-o", "json").stdout)["families"][0]["tables"] == []


@pytest.mark.parametrize(("addresses", "elements", "sysctl"), [
    ('["127.0.0.0/8", "172.31.0.0/24"]', ["127.0.0.1", "172.31.0.11"], "1"),
    ('["127.0.0.1/32"]', ["127.0.0.1"], "1"),
    ('["0.0.0.0/1"]', [], "0"),
    ('["172.31.0.0/24"]', ["172.31.0.11"], "0"),
    ('["0.0.0.0/0"]', None, "0"),
])
def test_node_ports_are_on_localhost_only_if_loopback_is_named(node, addresses, elements, sysctl):
    flags = configured(node, f"{NODE_PORTS}: {addresses}")
    diff = command(node, "diff", *flags)
    assert ("! sysctl net/ipv4/conf/all/route_localnet: 0 -> 1\n" in diff.stdout) == (sysctl == "1")
    done = command(node, "apply", *flags)
    assert (done.returncode, "IPv4: route_localnet set to 1\n" in done.stdout) == (0, sysctl == "1")
    assert route_localnet(node) == sysctl
    sets = json.loads(command(node, "render", *flags, "-o", "json").stdout)["families"][0]["tables"][0]["sets"]
    assert next((one["elements"] for one in sets if one["name"] == "nodeport-ips"), None) == elements


def test_cleanup_removes_the_table_of_both_families_and_no_other(node):
    assert command(node, "apply").returncode == 0
    assert node.run("nft", "add table ip other").returncode == 0
    assert node.proxy("--cleanup").returncode == 0
    assert node.run("nft", "list", "tables").stdout == "table ip other\n"


# ---- the daemon's start

def start(node):
    """Without any program."""
    path = configured(node, "conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n"
                      f"{NODE_PORTS}: ['::1/128', '172.31.0.0/24']")[1]
    return node.run("/usr/bin/env", "PATH=/nonexistent", boxes.BINARY, f"--config={path}", f"--manifests={node.objects}", "--init-only")


def test_init_only_checks_and_writes_nothing(node):
    done = start(node)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("System initialized and --init-only specified") == 2
    assert '"kube-proxy running in dual-stack mode" primary ipFamily="IPv4"' in done.stderr
    assert done.stderr.count('"--nodeport-addresses includes localhost but localhost NodePorts are not supported"') == 1
    assert node.run("nft", "list", "ruleset").stdout == ""


def test_without_ipv6_there_is_one_family(node):
    assert node.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6").returncode == 0
    done = start(node)
    assert done.returncode == 0, done.stderr
    assert '"Kernel support disabled for family" ipFamily="IPv6"' in done.stderr
    assert '"kube-proxy running in single-stack mode" ipFamily="IPv4"' in done.stderr


@pytest.mark.parametrize(("release", "error"), [
    ("5.12.9-generic", "kube-proxy in nftables mode requires kernel 5.13 or later"),
    ("weird", 'could not check kernel version: "weird" is no version'),
])
def test_an_old_kernel_is_refused_unless_told_otherwise(node, release, error):
    """The file of the kernel is covered by another one, in a mount namespace of its own."""
    fake = node.file("osrelease", release + "\n")
    config = configured(node, "conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}")[1]
    script = (f"mount --bind {fake} /proc/sys/kernel/osrelease && "
              f"exec {boxes.BINARY} --config={config} --manifests={node.objects} --init-only")
    done = node.run("unshare", "--mount", "sh", "-c", script)
    assert (done.returncode, failure(done)) == (1, f"unable to create proxier: unable to create ipv4 proxier: {error}")
    told = node.run("unshare", "--mount", "env", "KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK=1", "sh", "-c", script)
    assert told.returncode == 0, told.stderr
