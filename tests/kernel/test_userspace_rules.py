"""The daemon in mode userspace: its chains, rules, proxy ports and claims in the kernel."""

import json
import pathlib
import random
import re
import signal
import socket

import pytest
from lab import objects
from pages import ask
from test_daemon import CONFIG, daemon, wait_until  # noqa: F401

USERSPACE = CONFIG + "mode: userspace\n"
HOST = {"ipv4": "172.31.0.11", "ipv6": "[fd00:31::11]"}
LOCAL_IP = "192.168.77.1"  # of the node, besides that of its network
PORTALS = '-m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules"'
NODE_PORTS = '-m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain"'
NO_PORT_LEFT = "port allocation failed; there are no remaining ports left to allocate in the accepted range"


def put(proxy, name, ips, ports=None, endpoints=("10.244.1.2",), load_balancer_ips=(), annotations=None, **spec):
    """Writes a Service and its endpoints."""
    service = objects.service(name, ips, ports or [objects.port(80, name="http")], load_balancer_ips=load_balancer_ips, **spec)
    if annotations:
        service["metadata"]["annotations"] = annotations
    slices = [objects.endpoint_slice(name, [objects.endpoint(ip) for ip in endpoints],
                                     [objects.port(8080, one["protocol"], one["name"]) for one in service["spec"]["ports"]])]
    proxy.write(f"{name}.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [service, *slices]}))


def put_everything(proxy, **changes):
    """A Service with an address of every kind."""
    put(proxy, "web", "10.96.0.10", **{"ports": [objects.port(80, name="http", node_port=30080)], "type": "LoadBalancer",
                                       "externalIPs": ["192.168.99.11"], "load_balancer_ips": ["1.2.3.4"], **changes})


def rules_of(box, family="ipv4"):
    return by_chain(box.rules(family))


def by_chain(lines):
    """Chain -> its rules, without their beginning."""
    found = {}
    for line in lines:
        if line.startswith("-A "):
            _, chain, rule = line.split(" ", 2)
            found.setdefault(chain, []).append(rule)
    return found


def proxy_ports(box, service, family="ipv4"):
    """The ports that the rules of a Service port lead to."""
    rules = [rule for own in rules_of(box, family).values() for rule in own if f'--comment "{service}"' in rule]
    return {int(found) for rule in rules for found in re.findall(r"(?:--to-ports |--to-destination \S+:)(\d+)$", rule)}


def proxy_port(box, service):
    """The only one of them."""
    (port,) = proxy_ports(box, service)
    return port


def synced(proxy, count=1):
    """Both families have synced so many times."""
    for family in ("IPv4", "IPv6"):
        proxy.wait_for_log(f'"Synced rules" ipFamily="{family}"', count)


@pytest.fixture
def started(daemon):  # noqa: F811
    """One with a Service that has an address of every kind."""
    def start(*flags, config=USERSPACE):
        proxy = daemon(*flags, config=config)
        put_everything(proxy)
        proxy.wait_for_rule("KUBE-NODEPORT-HOST", "default/web:http")
        synced(proxy)
        return proxy

    return start


class Counted:
    """A program of the box's PATH, and how often it was called."""

    def __init__(self, box, program):
        self._calls = box.file(f"calls/{program}", "")
        path = pathlib.Path(box.programs) / program
        real = path.readlink()
        path.unlink()
        path.write_text(f'#!/bin/bash\necho >>{self._calls}\nexec -a {program} {real} "$@"\n')
        path.chmod(0o755)

    def count(self):
        return len(self._calls.read_text())


def test_chains_links_and_rules_are_those_of_the_mode(started, box):
    started()
    port, host = proxy_port(box, "default/web:http"), HOST["ipv4"]
    web = '-m comment --comment "default/web:http" -m tcp'
    to_port, to_host = f"-j REDIRECT --to-ports {port}", f"-j DNAT --to-destination {host}:{port}"
    assert rules_of(box) == {
        "INPUT": ['-m comment --comment "Ensure that non-local NodePort traffic can flow" -j KUBE-NODEPORT-NON-LOCAL'],
        "KUBE-NODEPORT-NON-LOCAL": [f"-p tcp {web} --dport {port} -m state --state NEW -j ACCEPT"],
        "PREROUTING": [f"{PORTALS} -j KUBE-PORTALS-CONTAINER", f"{NODE_PORTS} -j KUBE-NODEPORT-CONTAINER"],
        "OUTPUT": [f"{PORTALS} -j KUBE-PORTALS-HOST", f"{NODE_PORTS} -j KUBE-NODEPORT-HOST"],
        "KUBE-PORTALS-CONTAINER": [
            f"-d 10.96.0.10/32 -p tcp {web} --dport 80 {to_port}",
            f"-d 192.168.99.11/32 -p tcp {web} --dport 80 -m physdev ! --physdev-is-in {to_port}",
            f"-d 192.168.99.11/32 -p tcp {web} --dport 80 -m addrtype --dst-type LOCAL {to_port}",
            f"-d 1.2.3.4/32 -p tcp {web} --dport 80 {to_port}"],
        "KUBE-PORTALS-HOST": [
            f"-d 10.96.0.10/32 -p tcp {web} --dport 80 {to_host}",
            f"-d 192.168.99.11/32 -p tcp {web} --dport 80 -m addrtype --dst-type LOCAL {to_host}",
            f"-d 1.2.3.4/32 -p tcp {web} --dport 80 {to_host}"],
        "KUBE-NODEPORT-CONTAINER": [f"-p tcp {web} --dport 30080 {to_port}"],
        "KUBE-NODEPORT-HOST": [f"-p tcp {web} --dport 30080 {to_host}"],
    }


def test_both_families_are_served(daemon, box):  # noqa: F811
    proxy = daemon(config=USERSPACE)
    put(proxy, "web", ["10.96.0.10", "fd00:10:96::a"], [objects.port(53, "UDP", "dns")])
    wait_until(lambda: proxy_ports(box, "default/web:dns") and proxy_ports(box, "default/web:dns", "ipv6"), "rules of both families")
    (port,) = proxy_ports(box, "default/web:dns", "ipv6")
    rules = rules_of(box, "ipv6")
    match = '-d fd00:10:96::a/128 -p udp -m comment --comment "default/web:dns" -m udp --dport 53'
    assert rules["KUBE-PORTALS-CONTAINER"] == [f"{match} -j REDIRECT --to-ports {port}"]
    assert rules["KUBE-PORTALS-HOST"] == [f"{match} -j DNAT --to-destination {HOST['ipv6']}:{port}"]


def test_a_socket_that_is_bound_to_an_address_is_led_to(started, box):
    started(config=USERSPACE + f"bindAddress: {LOCAL_IP}\n")
    targets = {rule.partition(" -j ")[2] for chain, rules in rules_of(box).items() if chain.startswith(("KUBE-PORTALS", "KUBE-NODEPORT-"))
               for rule in rules if chain != "KUBE-NODEPORT-NON-LOCAL"}
    assert targets == {f"DNAT --to-destination {LOCAL_IP}:{proxy_port(box, 'default/web:http')}"}


def test_links_find_their_place_among_foreign_rules(started, box):
    foreign = {("nat", "PREROUTING"): "-s 198.18.0.1/32 -j ACCEPT", ("nat", "OUTPUT"): "-d 198.18.0.2/32 -j ACCEPT",
               ("filter", "INPUT"): "-s 198.18.0.3/32 -j DROP"}
    for (table, chain), rule in foreign.items():
        assert box.run("iptables", "-t", table, "-A", chain, *rule.split()).returncode == 0
    started()
    rules = rules_of(box)
    for hook, end in (("PREROUTING", "CONTAINER"), ("OUTPUT", "HOST")):
        assert rules[hook] == [f"{PORTALS} -j KUBE-PORTALS-{end}", foreign["nat", hook], f"{NODE_PORTS} -j KUBE-NODEPORT-{end}"]
    assert [rule.partition(" -j ")[2] for rule in rules["INPUT"]] == ["KUBE-NODEPORT-NON-LOCAL", "DROP"]


DAMAGE = {
    "tables": ["-t nat -F", "-t nat -X", "-F", "-X"],
    "rules-of-nat": ["-t nat -F"],
    "rules-of-filter": ["-F"],
    "a-hook": ["-t nat -F PREROUTING"],
    "one-chain": ["-t nat -F KUBE-PORTALS-HOST"],
    "one-rule": ["-t nat -D KUBE-NODEPORT-CONTAINER 1"],
    "a-foreign-rule-in-our-chain": ["-t nat -I KUBE-PORTALS-CONTAINER -d 10.96.0.10/32 -j ACCEPT"],
}


@pytest.mark.parametrize("commands", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_mended_with_the_same_ports(started, box, commands):
    proxy = started()
    before = rules_of(box)
    for command in commands:
        assert box.run("iptables", *command.split()).returncode == 0
    wait_until(lambda: rules_of(box) == before, f"the rules to come back; log:\n{proxy.log()}")
    proxy.wait_for_log('"Somebody else had changed our rules, mended" ipFamily="IPv4"')


def test_a_change_of_endpoints_writes_no_rule(started, box):
    restore = Counted(box, "iptables-restore")
    proxy = started()
    before, written = rules_of(box), restore.count()
    assert written == 1
    for number, endpoints in enumerate((["10.244.1.3"], [], ["10.244.1.3", "10.244.1.4"])):
        put_everything(proxy, endpoints=endpoints)
        proxy.wait_for_log('ipFamily="IPv4" full=false', count=number + 1)
        assert is_listening(box, proxy_port(box, "default/web:http")) == bool(endpoints)
    assert restore.count() == written
    assert rules_of(box) == before
    put_everything(proxy, externalIPs=[])
    wait_until(lambda: not proxy.has_rule("192.168.99.11"), "a change of an address in the rules")
    assert restore.count() == written + 1


def is_listening(box, port):
    """As ss shows it."""
    return f":{port} " in box.run("ss", "-Hltn").stdout


def test_diff_has_nothing_to_say(started, box):
    proxy = started()
    done = box.proxy("diff", "-f", proxy.manifests, "--config", f"{box.folder}/config.yaml")
    assert (done.returncode, done.stdout) == (0, "# IPv4: nothing would change\n# IPv6: nothing would change\n")


def test_a_service_that_changes_keeps_its_proxy_port(started, box):
    proxy = started()
    port = proxy_port(box, "default/web:http")
    for changes, rule in (({"ports": [objects.port(81, name="http", node_port=30081)]}, "--dport 30081"),
                          ({"externalIPs": ["192.168.99.12"]}, "192.168.99.12"),
                          ({"load_balancer_ips": []}, "192.168.99.11"),
                          ({"sessionAffinity": "ClientIP", "externalIPs": ["192.168.99.13"]}, "192.168.99.13")):
        put_everything(proxy, **changes)
        proxy.wait_for_rule("KUBE-", rule)
        assert proxy_ports(box, "default/web:http") == {port}


def test_what_is_treated_otherwise_has_a_port_of_its_own(daemon, box):  # noqa: F811
    proxy = daemon(config=USERSPACE)
    put_everything(proxy, loadBalancerSourceRanges=["203.0.113.0/24"], externalTrafficPolicy="Local")
    proxy.wait_for_rule("KUBE-NODEPORT-HOST", "default/web:http")
    assert len(proxy_ports(box, "default/web:http")) == 3
    put_everything(proxy)
    wait_until(lambda: len(proxy_ports(box, "default/web:http")) == 1, "one port to be enough")


@pytest.mark.parametrize("text, ports", [("41000-41019", range(41000, 41020)), ("41000+19", range(41000, 41020))])
def test_proxy_ports_are_in_their_range(daemon, box, text, ports):  # noqa: F811
    proxy = daemon(config=USERSPACE + f"portRange: {text}\n")
    for number in range(20):
        put(proxy, f"web{number}", f"10.96.0.{number + 1}")
    wait_until(lambda: all(proxy_ports(box, f"default/web{number}:http") for number in range(20)), f"20 Services; log:\n{proxy.log()}")
    assert {proxy_port(box, f"default/web{number}:http") for number in range(20)} == set(ports)


def test_a_port_that_somebody_else_has_is_not_taken(daemon, box):  # noqa: F811
    with box.ns.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.bind(("0.0.0.0", 41000))
        other.listen()
        proxy = daemon(config=USERSPACE + "portRange: 41000-41001\n")
        put(proxy, "web", "10.96.0.1")
        wait_until(lambda: proxy_ports(box, "default/web:http") == {41001}, f"the port that is free; log:\n{proxy.log()}")


def test_a_service_without_a_port_gets_the_one_that_another_gives_back(daemon, box):  # noqa: F811
    proxy = daemon(config=USERSPACE + "portRange: 41000-41001\n")
    for number in (1, 2):
        put(proxy, f"web{number}", f"10.96.0.{number}")
    wait_until(lambda: proxy_ports(box, "default/web1:http") | proxy_ports(box, "default/web2:http") == {41000, 41001}, "two Services")
    put(proxy, "web3", "10.96.0.3")
    proxy.wait_for_log(NO_PORT_LEFT)
    assert not proxy.has_rule("default/web3")
    given_back = proxy_port(box, "default/web1:http")
    (proxy.manifests / "web1.json").unlink()
    wait_until(lambda: proxy_ports(box, "default/web3:http") == {given_back}, f"the third one; log:\n{proxy.log()}")
    assert not proxy.has_rule("default/web1")
    assert proxy.log().count(NO_PORT_LEFT) == 1, "told once"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_takes_the_same_ports_and_writes_nothing(started, box, number):
    proxy = started()
    assert proxy.stop(number) == -number
    before = rules_of(box), rules_of(box, "ipv6")
    port = proxy_port(box, "default/web:http")
    assert not is_listening(box, port)
    restore = Counted(box, "iptables-restore")
    proxy.log_path.write_text("")
    proxy.start(config=USERSPACE)
    synced(proxy)
    assert proxy.log().count("chains=0 rules=0") >= 2, proxy.log()
    assert (rules_of(box), rules_of(box, "ipv6")) == before
    assert restore.count() == 0
    assert is_listening(box, port)


def test_a_restart_that_finds_its_port_taken_takes_another(started, box):
    proxy = started()
    proxy.stop()
    port = proxy_port(box, "default/web:http")
    with box.ns.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.bind(("0.0.0.0", port))
        other.listen()
        proxy.log_path.write_text("")
        proxy.start(config=USERSPACE)
        synced(proxy)
        assert proxy_port(box, "default/web:http") != port


# Claims

def test_node_ports_and_addresses_of_the_node_are_claimed(started, box):
    proxy = started()
    put_everything(proxy, externalIPs=[LOCAL_IP])
    proxy.wait_for_rule("KUBE-PORTALS-HOST", LOCAL_IP)
    for address in (("0.0.0.0", 30080), (LOCAL_IP, 80)):
        with box.ns.socket(socket.AF_INET, socket.SOCK_STREAM) as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
    put_everything(proxy, externalIPs=[], ports=[objects.port(80, name="http", node_port=30081)])
    proxy.wait_for_rule("KUBE-NODEPORT-HOST", "--dport 30081")
    for address in (("0.0.0.0", 30080), (LOCAL_IP, 80)):
        with box.ns.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
            wait_until(lambda: can_bind(other, address), f"{address} to be free")  # noqa: B023


def can_bind(sock, address):
    try:
        sock.bind(address)
    except OSError:
        return False
    return True


def test_a_node_port_that_somebody_else_has_is_told_and_left_out(daemon, box):  # noqa: F811
    with box.ns.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.bind(("0.0.0.0", 30080))
        other.listen()
        proxy = daemon(config=USERSPACE)
        put_everything(proxy)
        proxy.wait_for_log("can't open node port for <nil>:30080/TCP: ")
        proxy.wait_for_rule("KUBE-PORTALS-CONTAINER", "10.96.0.10/32")
        assert not proxy.has_rule("--dport 30080")
        assert rules_of(box).get("KUBE-NODEPORT-NON-LOCAL") is None
    proxy.wait_for_rule("KUBE-NODEPORT-CONTAINER", "--dport 30080")
    assert proxy.log().count("can't open node port") == 1, "told once"


def test_an_address_that_another_service_has_is_told_and_left_out(daemon, box):  # noqa: F811
    proxy = daemon(config=USERSPACE)
    put(proxy, "first", "10.96.0.1", externalIPs=[LOCAL_IP])
    proxy.wait_for_rule("default/first:http", LOCAL_IP)
    put(proxy, "second", "10.96.0.2", externalIPs=[LOCAL_IP])
    proxy.wait_for_log(f"Port conflict detected on port {LOCAL_IP}:80/TCP.  default/second:http vs default/first:http")
    proxy.wait_for_rule("default/second:http", "10.96.0.2/32")
    assert not proxy.has_rule("default/second:http", LOCAL_IP)
    (proxy.manifests / "first.json").unlink()
    proxy.wait_for_rule("default/second:http", LOCAL_IP)


# What is told

def test_the_start_is_told(started, box):
    proxy = started()
    assert '"Using userspace Proxier"' in proxy.log()
    assert "The userspace proxier is now deprecated and will be removed in a future release, please use 'iptables' or 'ipvs' instead" in proxy.log()
    assert ask(box.ns, 10249, "/proxyMode").text == "userspace"
    assert ask(box.ns, 10256, "/healthz").status == 200


def test_it_does_not_proxy_on_localhost(box):
    config = box.file("config.yaml", USERSPACE + "bindAddress: 127.0.0.1\n")
    (pathlib.Path(box.folder) / "manifests").mkdir()
    done = box.proxy(f"--config={config}", f"--manifests={box.folder}/manifests")
    assert done.returncode == 1
    assert "cannot proxy on localhost" in done.stderr


def test_what_a_service_does_not_get_is_told(daemon, box):  # noqa: F811
    proxy = daemon(config=USERSPACE)
    put(proxy, "web", "10.96.0.10", [objects.port(80, name="http"), objects.port(90, "SCTP", "signal")],
        annotations={"userspace.kube-proxy/proxy-protocol": "v1"})
    proxy.wait_for_log("SCTP is not supported for user space proxy")
    proxy.wait_for_log("userspace.kube-proxy/proxy-protocol")
    proxy.wait_for_rule("default/web:http")
    assert not proxy.has_rule("default/web:signal")


def test_a_failing_restore_is_told_and_tried_again(daemon, box):  # noqa: F811
    real = pathlib.Path(box.programs) / "iptables-restore"
    target = real.readlink()
    real.unlink()
    real.write_text("#!/bin/sh\ncat >/dev/null\necho 'iptables-restore: line 5 failed' >&2\nexit 1\n")
    real.chmod(0o755)
    proxy = daemon(config=USERSPACE)
    put_everything(proxy)
    proxy.wait_for_log("Sync failed", count=2)
    real.unlink()
    real.symlink_to(target)
    proxy.wait_for_rule("KUBE-NODEPORT-HOST", "default/web:http")
    proxy.wait_for_log("Sync works again")
    assert is_listening(box, proxy_port(box, "default/web:http"))


# A long life

def masked(rules):
    """Without the numbers of proxy ports."""
    masks = ((r"--to-ports \d+$", "PP"), (r"--to-destination (\S+):\d+$", r"\1:PP"), (r"--dport \d+ -m state", "--dport PP -m state"))
    found = {}
    for chain, own in rules.items():
        for pattern, mask in masks:
            own = [re.sub(pattern, mask, rule) for rule in own]
        found[chain] = own
    return found


def test_a_history_of_saved_files_ends_where_render_ends(daemon, box):  # noqa: F811
    proxy = daemon(config=USERSPACE + "portRange: 41000-41099\n")
    choose = random.Random(11)
    for step in range(150):
        name = f"s{choose.randrange(12)}"
        if choose.random() < 0.2:
            (proxy.manifests / f"{name}.json").unlink(missing_ok=True)
            continue
        number = int(name[1:])
        put(proxy, name, f"10.96.1.{number + 1 + 20 * choose.randrange(3)}",
            [objects.port(80, choose.choice(["TCP", "UDP"]), "main", node_port=30100 + number + 20 * choose.randrange(2))],
            endpoints=[f"10.244.1.{choose.randrange(1, 50)}" for _ in range(choose.randrange(3))], type="NodePort",
            externalTrafficPolicy=choose.choice(["Local", "Cluster"]), externalIPs=choose.choice([[], ["192.0.2.1"], [f"192.0.2.{number + 10}"]]))
        if step % 10 == 0:
            synced(proxy)
    wanted = box.proxy("render", "-f", proxy.manifests, "--config", f"{box.folder}/config.yaml", "--family", "ipv4").stdout
    expected = by_chain(wanted.splitlines())
    wait_until(lambda: masked(rules_of(box)) == masked(expected), f"the daemon to end where render ends; log:\n{proxy.log()[-3000:]}")
    listening = {int(port) for port in re.findall(r":(410\d\d) ", box.run("ss", "-Hltun").stdout)}
    used = {int(port) for rules in rules_of(box).values() for rule in rules for port in re.findall(r"(410\d\d)$", rule)}
    assert listening <= used, "no socket is left over"
    done = box.proxy("diff", "-f", proxy.manifests, "--config", f"{box.folder}/config.yaml")
    assert done.returncode == 0, done.stdout
