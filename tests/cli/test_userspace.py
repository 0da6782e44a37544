"""The commands in mode userspace: what they print, what they refuse, and what the daemon says at its start."""

import json
import os

import pytest
import sandbox as boxes
from conftest import failure

MODE = "--proxy-mode=userspace"
NO_CONNTRACK = "conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}"

OBJECTS = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  externalIPs: [192.168.99.11]
  ports: [{name: http, port: 80, protocol: TCP, nodePort: 30080}]
status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.244.1.2]}, {addresses: [10.244.2.3]}]
ports: [{name: http, port: 8080, protocol: TCP}]
"""

WEB = '-p tcp -m comment --comment "default/web:http" -m tcp --dport'
CONTAINER = "-A KUBE-PORTALS-CONTAINER"
HOST = "-A KUBE-PORTALS-HOST"
TO_HOST = "-j DNAT --to-destination 172.31.0.11:40000"
TO_PORT = "-j REDIRECT --to-ports 40000"
RULES = [
    f"-A KUBE-NODEPORT-NON-LOCAL {WEB} 40000 -m state --state NEW -j ACCEPT",
    f"{CONTAINER} -d 10.96.0.10/32 {WEB} 80 {TO_PORT}",
    f"{CONTAINER} -d 192.168.99.11/32 {WEB} 80 -m physdev ! --physdev-is-in {TO_PORT}",
    f"{CONTAINER} -d 192.168.99.11/32 {WEB} 80 -m addrtype --dst-type LOCAL {TO_PORT}",
    f"{CONTAINER} -d 1.2.3.4/32 {WEB} 80 {TO_PORT}",
    f"{HOST} -d 10.96.0.10/32 {WEB} 80 {TO_HOST}",
    f"{HOST} -d 192.168.99.11/32 {WEB} 80 -m addrtype --dst-type LOCAL {TO_HOST}",
    f"{HOST} -d 1.2.3.4/32 {WEB} 80 {TO_HOST}",
    f"-A KUBE-NODEPORT-CONTAINER {WEB} 30080 {TO_PORT}",
    f"-A KUBE-NODEPORT-HOST {WEB} 30080 {TO_HOST}",
]
CHAINS = {"KUBE-PORTALS-CONTAINER", "KUBE-PORTALS-HOST", "KUBE-NODEPORT-CONTAINER", "KUBE-NODEPORT-HOST", "KUBE-NODEPORT-NON-LOCAL"}


@pytest.fixture
def node():
    with boxes.sandbox() as made:
        made.objects = made.file("objects.yaml", OBJECTS)
        yield made


def command(node, name, *args):
    return node.proxy(name, "-f", node.objects, MODE, *args)


def start(node, body="", *args):
    path = node.file("config.yaml", "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
                     f"mode: userspace\nhostnameOverride: node1\n{NO_CONNTRACK}\n{body}\n")
    return node.proxy(f"--config={path}", f"--manifests={node.objects}", "--init-only", *args)


def leave_rules(node):
    """What a daemon would have left."""
    dump = node.file("rules.txt", command(node, "render", "--family=ipv4").stdout)
    done = node.run("iptables-restore", dump)
    assert done.returncode == 0, done.stderr


def test_render_prints_the_rules_of_the_original(node):
    done = command(node, "render", "--family=ipv4")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "# IPv4, as iptables-save would print it"
    assert sorted(line for line in lines if '"default/web:http"' in line) == sorted(RULES)
    assert {line.split()[0][1:] for line in lines if line.startswith(":KUBE")} == CHAINS


def test_the_kernel_shows_what_render_prints(node):
    leave_rules(node)
    shown = [line for line in node.rules() if line.startswith("-A")]
    assert sorted(shown) == sorted(line for line in command(node, "render", "--family=ipv4").stdout.splitlines() if line.startswith("-A"))


def test_render_needs_no_root(node):
    os.chmod(node.folder, 0o755)
    done = node.run("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", boxes.BINARY, "render", "-f", node.objects, MODE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == command(node, "render").stdout


def test_ports_are_those_of_the_range(node):
    config = node.file("range.yaml", "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
                       "mode: userspace\nportRange: 300-2000\n")
    done = node.proxy("render", "-f", node.objects, "--config", config, "--family=ipv4")
    assert "--to-ports 300\n" in done.stdout


def test_apply_is_for_modes_that_live_in_the_kernel(node):
    done = command(node, "apply")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kube-proxy: mode userspace works only while the daemon runs: its rules lead to sockets of the process\n"
    assert node.save() == ""


def test_diff_says_what_would_change(node):
    done = command(node, "diff", "--family=ipv4")
    assert done.returncode == 1
    assert "@@ nat KUBE-PORTALS-CONTAINER (new)\n" in done.stdout
    assert set(RULES) <= {line[1:] for line in done.stdout.splitlines() if line.startswith("+")}
    chains = json.loads(command(node, "diff", "-o", "json").stdout)["families"][0]["chains"]
    assert {one["chain"] for one in chains if one["state"] == "new"} == CHAINS


def test_diff_keeps_the_ports_that_the_rules_have(node):
    leave_rules(node)
    rules = node.file("other-port.txt", node.save().replace("40000", "41234"))
    assert node.run("iptables-restore", rules).returncode == 0
    done = command(node, "diff", "--family=ipv4")
    assert (done.returncode, done.stdout) == (0, "# IPv4: nothing would change\n")
    assert node.run("iptables", "-t", "nat", "-F", "KUBE-NODEPORT-HOST").returncode == 0
    mended = command(node, "diff", "--family=ipv4")
    assert mended.returncode == 1
    assert "+" + RULES[-1].replace("40000", "41234") in mended.stdout.splitlines()


def test_cleanup_removes_everything_of_the_mode_and_nothing_else(node):
    assert node.run("iptables", "-t", "nat", "-A", "PREROUTING", "-p", "udp", "-j", "ACCEPT").returncode == 0
    before = node.rules()
    leave_rules(node)
    assert node.run("iptables", "-t", "nat", "-A", "PREROUTING", "-p", "udp", "-j", "ACCEPT").returncode == 0
    done = node.proxy("--cleanup")
    assert done.returncode == 0, done.stderr
    assert [line for line in node.rules() if line.startswith(("-A", ":KUBE"))] == [line for line in before if line.startswith("-A")]


# ---- the daemon's start

def test_init_only_says_what_it_is_and_writes_nothing(node):
    done = start(node)
    assert done.returncode == 0, done.stderr
    assert '"Using userspace Proxier"' in done.stderr
    assert ('"The userspace proxier is now deprecated and will be removed in a future release, please use \'iptables\' or \'ipvs\' instead"'
            in done.stderr)
    assert done.stderr.count("System initialized and --init-only specified") == 2
    assert "KUBE" not in node.save()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_loopback_is_no_place_to_listen(node, address):
    done = start(node, f"bindAddress: '{address}'")
    assert (done.returncode, failure(done)) == (1, "unable to create proxier: cannot proxy on localhost")


def test_a_family_without_an_address_is_not_served(node):
    assert node.run("ip", "-6", "addr", "flush", "dev", "eth0").returncode == 0
    done = start(node)
    assert done.returncode == 0, done.stderr
    assert '"No address for the traffic of this node, not serving the family" ipFamily="IPv6"' in done.stderr
    assert done.stderr.count("System initialized and --init-only specified") == 1


def test_without_any_address_there_is_nothing_to_proxy_on(node):
    for device in ("eth0", "lo"):
        assert node.run("ip", "addr", "flush", "dev", device).returncode == 0
    done = start(node)
    assert done.returncode == 1
    assert failure(done) == ("unable to create proxier: failed to select a host interface: no interface that is up has a global IPv4 "
                             "address")


def test_node_port_addresses_have_no_effect_and_that_is_told(node):
    assert '"Kube-proxy configuration may be incomplete or incorrect" err="nodePortAddresses has no effect in mode userspace;' in \
        start(node, "nodePortAddresses: [primary]").stderr
    assert "nodePortAddresses" not in start(node).stderr
