"""Mode nftables on the real kernel: how little it writes, what it mends, and what it stands."""

import copy
import errno
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
import sandbox as boxes
from lab import nftables, usage
from lab.stalls import Stalls, stood_still
from test_apply import WEB
from test_daemon import Daemon, daemon, wait_until  # noqa: F401
from test_nftables_daemon import CIDR, NFTABLES, WITH_SYNC_PERIOD, table

sys.path.append(str(boxes.ROOT / "tests" / "soak"))

from faults import Faults  # noqa: E402

WEB = WEB.replace("{addresses: [10.244.1.2]}", "{addresses: [10.244.1.2], nodeName: node1}")
SHORT_SYNC_PERIOD = WITH_SYNC_PERIOD.replace("30s", "1s")
SYNCED = '"Synced rules" ipFamily="IPv4"'
MENDED = '"Somebody else had changed our rules, wrote them anew" ipFamily="IPv4"'
ENDPOINTS = re.search(r"endpoints: .*", WEB).group()


def with_endpoints(*addresses, text=WEB):
    return text.replace(ENDPOINTS, "endpoints: [" + ", ".join(f"{{addresses: [{one}]}}" for one in addresses) + "]")


def moved(address):
    """The Service with another second endpoint. Of how many there are, nothing changes."""
    return with_endpoints("10.244.1.2", address)


def others(count):
    """So many other Services, with an endpoint each."""
    made = []
    for number in range(count):
        text = WEB.replace("web", f"other-{number}").replace("10.96.0.10", f"10.96.{1 + number // 250}.{number % 250 + 1}")
        made.append(with_endpoints("10.244.9.9", text=text.replace("type: NodePort", "type: ClusterIP").replace(", nodePort: 30080", "")))
    return "---".join(made)


def nft(box, *argv):
    done = box.run("nft", *argv)
    assert done.returncode == 0, done.stderr
    return done.stdout


def handles(box):
    """Everything in our tables, with the numbers that the kernel gave it: what is written anew has another one."""
    return {family: nft(box, "-a", "list", "table", family, "kube-proxy") for family in ("ip", "ip6")}


def wait_for_text(proxy, *parts):
    wait_until(lambda: all(part in table(proxy.box) for part in parts), f"{parts} in the table; log:\n{proxy.log()}")


def differences(proxy):
    """What `kube-proxy diff` says: nothing when the kernel equals the plan, element by element."""
    done = proxy.box.proxy("diff", "-f", proxy.manifests, "--config", f"{proxy.box.folder}/config.yaml")
    return "" if done.returncode == 0 else done.stdout + done.stderr


def wait_in_line(proxy, seconds=60):
    wait_until(lambda: not differences(proxy), f"the kernel to equal the plan; log:\n{proxy.log()}", seconds)


def settled(proxy):
    """Waits until it has synced a Service and a ServiceCIDR."""
    proxy.write("web.yaml", WEB)
    proxy.write("cidr.yaml", CIDR)
    for family in ("IPv4", "IPv6"):
        proxy.wait_for_log(f'"Synced rules" ipFamily="{family}"')
    wait_for_text(proxy, "10.96.0.0/16", "10.244.1.2 . 10.244.1.2")
    wait_in_line(proxy)
    return proxy


@pytest.fixture
def proxy(daemon):  # noqa: F811
    """It looks by itself for what others did every 30 s only."""
    return settled(daemon(config=WITH_SYNC_PERIOD))


@pytest.fixture
def monitor(box):
    with nftables.Monitor(box.ns) as made:
        yield made


# How little is written


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_is_no_transaction(proxy, box, end):
    before, held = nftables.generation(box.ns), handles(box)
    for _ in range(3):
        proxy.stop(end)
        proxy.log_path.write_text("")
        proxy.start(config=WITH_SYNC_PERIOD)
        proxy.wait_for_log('"Synced rules"', count=2)
    assert nftables.generation(box.ns) == before
    assert handles(box) == held
    proxy.write("web.yaml", moved("10.244.2.77"))
    wait_for_text(proxy, "10.244.2.77")
    assert "Sync failed" not in proxy.log()
    assert "Partial sync failed" not in proxy.log(), "it knows what it has taken over"


@pytest.mark.parametrize("services", [0, 300])
def test_a_change_is_one_transaction_about_what_has_changed(proxy, box, services):
    if services:
        proxy.write("others.yaml", others(services))
        wait_for_text(proxy, f"default/other-{services - 1}:http")
    with nftables.Monitor(box.ns) as monitor:
        proxy.write("web.yaml", moved("10.244.2.77"))
        wait_for_text(proxy, "10.244.2.77")
        written = monitor.transactions()
    assert len(written) == 1, written
    # One endpoint of the cluster IP and of the node port; and the one that is no longer on this node cannot ask itself.
    assert sorted((what, name) for what, _, _, name in written[0].changes) == [
        ("add element", "endpoints"), ("add element", "fingerprint"), ("add element", "nodeport-endpoints"),
        ("delete element", "endpoints"), ("delete element", "fingerprint"), ("delete element", "hairpin-connections"),
        ("delete element", "nodeport-endpoints")]


def test_a_chain_is_there_before_something_leads_to_it(proxy, monitor):
    """A packet that is on its way sees the elements of now, and the chains of the time when it came."""
    proxy.write("web.yaml", with_endpoints("10.244.1.2", "10.244.2.3", "10.244.2.4"))
    wait_for_text(proxy, "goto endpoints/3", "10.244.2.4")
    first, second = monitor.transactions()
    assert {what for what, *_ in first.changes} == {"add chain", "add rule"}
    assert {what for what, *_ in second.changes} == {"add element", "delete element"}


def test_a_change_of_one_family_does_not_touch_the_other(proxy, monitor):
    proxy.write("web.yaml", moved("10.244.2.77"))
    wait_for_text(proxy, "10.244.2.77")
    assert monitor.transactions("ip6") == []


def test_what_changes_nothing_is_not_written(proxy, box):
    before = nftables.generation(box.ns)
    proxy.write("web.yaml", WEB.replace("metadata: {name: web,", "metadata: {name: web, annotations: {a: b},"))
    proxy.write("last.yaml", WEB.replace("web", "last").replace("10.96.0.10", "10.96.0.20").replace("30080", "30081"))
    wait_for_text(proxy, "10.96.0.20")
    assert nftables.generation(box.ns) == before + 1


# When it is written


def change_again_and_again(proxy, count, pause):
    """Gives the Service so many endpoints, one after the other, and waits for the last one; returns how long it took."""
    begun = time.monotonic()
    for number in range(count):
        proxy.write("web.yaml", moved(f"10.244.3.{number + 1}"))
        time.sleep(pause)
    wait_for_text(proxy, f"10.244.3.{count} . 8080")
    return time.monotonic() - begun


def test_changes_are_not_held_back_without_a_written_minimum(proxy, monitor):
    """The default of one second would make three or four transactions out of these."""
    change_again_and_again(proxy, 30, pause=0.1)
    assert len(monitor.transactions()) >= 10


def test_changes_are_held_back_by_a_written_minimum(daemon, monitor):  # noqa: F811
    proxy = settled(daemon(config=NFTABLES + "nftables: {minSyncPeriod: 2s, syncPeriod: 30s}\n"))
    before = len(monitor.transactions())
    elapsed = change_again_and_again(proxy, 30, pause=0.1)
    assert 1 <= len(monitor.transactions()) - before <= elapsed / 2 + 1


def test_changes_that_come_fast_go_together(proxy, monitor):
    elapsed = change_again_and_again(proxy, 250, pause=0)
    assert len(monitor.transactions()) <= elapsed / 0.01 + 1


# What others do

DEEDS = {
    "flush-everything": "flush ruleset",
    "delete-the-table": "delete table ip kube-proxy",
    "flush-the-table": "flush table ip kube-proxy",
    "flush-a-chain": "flush chain ip kube-proxy services",
    "delete-from-service-ips": "delete element ip kube-proxy service-ips { 10.96.0.10 . tcp . 80 }",
    "delete-from-service-nodeports": "delete element ip kube-proxy service-nodeports { tcp . 30080 }",
    "delete-from-endpoints": "delete element ip kube-proxy endpoints { 10.96.0.10 . tcp . 80 . 0x1 }",
    "delete-from-hairpin-connections": "delete element ip kube-proxy hairpin-connections { 10.244.1.2 . 10.244.1.2 . tcp . 8080 }",
    "delete-from-service-cidrs": "delete element ip kube-proxy service-cidrs { 10.96.0.0/16 }",
    "flush-the-fingerprint": "flush set ip kube-proxy fingerprint",
    "add-an-endpoint": "add element ip kube-proxy endpoints { 10.96.0.10 . tcp . 80 . 0x2 : 192.0.2.1 . 8080 }",
    "add-a-rule": "add rule ip kube-proxy services ip daddr 192.0.2.1 drop",
    "insert-a-rule": "insert rule ip kube-proxy nat-postrouting accept",
    "add-a-base-chain": "add chain ip kube-proxy foreign { type filter hook input priority 0; policy drop; }",
    "change-a-policy": "add chain ip kube-proxy filter-forward { type filter hook forward priority 0; policy drop; }",
}


def content(box):
    """What our table holds, whatever the order. The kernel has none for elements of a set."""
    return sorted(line.strip(" \t,}").removeprefix("elements = { ") for line in table(box).splitlines())


@pytest.fixture(scope="module")
def stalls():
    return Stalls()


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
def test_what_others_do_is_mended_and_told(proxy, box, monitor, stalls, deed):
    before = content(box)
    nft(box, deed)
    done = time.monotonic()
    proxy.wait_for_log(MENDED)
    mended = time.monotonic()
    assert content(box) == before
    assert differences(proxy) == ""
    assert mended - done < 1 or stood_still(stalls.so_far(), done, mended)
    assert len(monitor.transactions()) <= 3, "the deed, and its repair: chains, and what leads to them"
    assert "Sync failed" not in proxy.log()


def test_transactions_about_other_tables_wake_nobody(proxy, box, monitor):
    before = proxy.log().count(SYNCED)
    storm = "".join(f"add table inet t{number}\nadd set inet t{number} s {{ type ipv4_addr; }}\n"
                    f"add element inet t{number} s {{ 192.0.2.1, 192.0.2.2 }}\n" for number in range(200))
    for _ in range(5):
        assert box.run("nft", "-f", "-", input=storm).returncode == 0
        nft(box, "delete table inet t1")
    proxy.write("web.yaml", moved("10.244.2.77"))
    wait_for_text(proxy, "10.244.2.77")
    assert len(monitor.transactions()) == 1
    assert proxy.log().count(SYNCED) == before + 1
    assert MENDED not in proxy.log()


def test_a_neighbour_who_does_not_stop_is_answered_more_and_more_rarely(proxy, box):
    """And when the neighbour is gone, the rules are back."""
    vandal = subprocess.Popen(["ip", "netns", "exec", box.ns.name, "timeout", "5", "sh", "-c",
                               "while :; do nft flush chain ip kube-proxy services; done"], stderr=subprocess.DEVNULL)
    begun, before = time.monotonic(), usage.cpu_seconds(proxy.process.pid)
    vandal.wait(60)
    busy, elapsed = usage.cpu_seconds(proxy.process.pid) - before, time.monotonic() - begun
    pauses = [float(one) * (0.001 if unit == "ms" else 1) for one, unit in re.findall(r'timesInARow=\d+ pause="([\d.]+)(ms|s)"', proxy.log())]
    assert len(pauses) >= 3, proxy.log()
    assert all(later == pytest.approx(2 * earlier) for earlier, later in itertools.pairwise(pauses)), pauses
    # Each repair begins the pause that it tells; the last may not be over.
    assert sum(pauses[:-1]) <= elapsed
    assert busy / elapsed < 0.25
    wait_in_line(proxy)
    assert "Sync failed" not in proxy.log()


def test_two_daemons_do_not_corrupt_the_table(proxy, box, daemon, monitor):  # noqa: F811
    """As when a node's DaemonSet was made twice. Each takes what the other writes for a disturbance, which it must not answer for ever."""
    second = copy.copy(box)
    second.folder = f"{box.folder}/second"
    os.mkdir(second.folder)
    os.symlink(proxy.manifests, f"{second.folder}/manifests")
    ports = "healthzBindAddress: 127.0.0.1:11256\nmetricsBindAddress: 127.0.0.1:11249\n"
    twin = Daemon(second, config=WITH_SYNC_PERIOD + ports)
    try:
        twin.wait_for_log('"Synced rules"', count=2)
        changes = 30
        elapsed = change_again_and_again(proxy, changes, pause=0.1)
        wait_in_line(proxy)
        written = len(monitor.transactions())
    finally:
        twin.stop()
    # Pauses double from 0.1 s on: eight repairs are enough for twenty seconds, of each of the two.
    assert written <= 2 * changes + 2 * (8 + elapsed), proxy.log() + twin.log()
    assert "Sync failed" not in proxy.log() + twin.log()
    proxy.write("web.yaml", WEB)
    wait_for_text(proxy, "10.244.1.2 . 8080")
    wait_in_line(proxy)


# What the kernel may answer


class Troubled(Daemon):
    """One with faults that can be switched on. It tries again, and compares, after a second."""

    def __init__(self, box):
        self.faults = Faults(box.folder)
        super().__init__(box, config=SHORT_SYNC_PERIOD)

    def start(self, *flags, config=SHORT_SYNC_PERIOD):
        environment = self.box.environment
        self.box.environment = lambda: {**environment(), **self.faults.environment}
        try:
            super().start(*flags, config=config)
        finally:
            self.box.environment = environment


@pytest.fixture
def troubled(box):
    made = Troubled(box)
    try:
        yield settled(made)
    finally:
        made.stop(signal.SIGKILL)


@pytest.mark.parametrize("error", [errno.ENOBUFS, errno.EINTR], ids=["ENOBUFS", "EINTR"])
@pytest.mark.parametrize("times", [3, 12])
def test_what_could_not_be_sent_is_sent_again(troubled, monitor, error, times):
    troubled.faults.on("sends", f"{error} {times}")
    troubled.write("web.yaml", moved("10.244.2.77"))
    wait_for_text(troubled, "10.244.2.77")
    wait_in_line(troubled)
    assert len(monitor.transactions()) == 1
    assert ("Sync failed" in troubled.log()) == (times > 10), "five times for the change, five for the comparison"
    assert MENDED not in troubled.log()


@pytest.mark.parametrize("times", [1, 2, 5, 9])
def test_lost_answers_do_not_matter_in_the_end(troubled, monitor, times):
    troubled.faults.on("answers", str(times))
    troubled.write("web.yaml", moved("10.244.2.77"))
    wait_for_text(troubled, "10.244.2.77")
    troubled.faults.off("answers")
    troubled.write("cidr.yaml", CIDR.replace("10.96.0.0/16", "10.98.0.0/16"))
    wait_for_text(troubled, "10.98.0.0/16")
    wait_in_line(troubled)
    assert "Sync failed" not in troubled.log() or '"Sync works again"' in troubled.log()
    settled = len(monitor.transactions())
    troubled.write("web.yaml", moved("10.244.2.78"))
    wait_for_text(troubled, "10.244.2.78")
    assert len(monitor.transactions()) == settled + 1, "it knows again what is there"


def test_a_lost_acknowledgement_does_not_make_it_write_twice(troubled, monitor):
    troubled.faults.on("answers", "1")
    troubled.write("web.yaml", moved("10.244.2.77"))
    troubled.wait_for_log("Partial sync failed, trying a full one")
    wait_in_line(troubled)
    assert len(monitor.transactions()) == 1
    assert "Sync failed" not in troubled.log()


def test_answers_that_cannot_be_read_do_not_stop_it_for_good(troubled, box):
    """What is left of an answer must not be taken for the next one, nor keep the kernel from giving it."""
    troubled.faults.on("enobufs")
    for number in range(20):
        heard = troubled.log().count('"Manifests changed"')
        troubled.write("web.yaml", moved(f"10.244.3.{number + 1}"))
        nft(box, "flush chain ip kube-proxy services")
        troubled.wait_for_log('"Manifests changed"', count=heard + 1)
    troubled.faults.off("enobufs")
    troubled.write("web.yaml", moved("10.244.2.77"))
    wait_for_text(troubled, "10.244.2.77")
    wait_in_line(troubled)


def test_a_restart_under_faults_comes_up(troubled):
    troubled.stop()
    troubled.log_path.write_text("")
    troubled.faults.on("enobufs")
    troubled.start()
    wait_until(lambda: re.search('"(Synced rules|Sync failed)"', troubled.log()) or troubled.process.poll() is not None, "a first attempt")
    troubled.faults.off("enobufs")
    if troubled.process.poll() is not None:  # while it starts, a kernel that does not answer is a reason to end
        troubled.start()
    troubled.write("web.yaml", moved("10.244.2.77"))
    wait_for_text(troubled, "10.244.2.77")
    wait_in_line(troubled)


def dropped_messages(box, pid):
    """How many messages the kernel could not deliver to netlink sockets of that process."""
    lines = [line.split() for line in box.run("cat", "/proc/net/netlink").stdout.splitlines()[1:]]
    inodes = {os.stat(f"/proc/{pid}/fd/{fd}").st_ino for fd in os.listdir(f"/proc/{pid}/fd")}
    return sum(int(drops) for *_, drops, inode in lines if int(inode) in inodes)


@pytest.mark.parametrize("deed", ["flush chain ip kube-proxy services", "delete table ip kube-proxy", "flush set ip kube-proxy fingerprint"])
def test_what_was_not_heard_is_found(proxy, box, deed):
    """More happens than the watch has room for, while the daemon does not listen."""
    before = content(box)
    elements = ", ".join(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}" for number in range(60_000))
    proxy.process.send_signal(signal.SIGSTOP)
    try:
        for turn in range(6):
            storm = f"add table inet storm\nadd set inet storm s{turn} {{ type ipv4_addr; }}\nadd element inet storm s{turn} {{ {elements} }}\n"
            assert box.run("nft", "-f", "-", input=storm).returncode == 0
        assert dropped_messages(box, proxy.process.pid) > 0
        nft(box, deed)
    finally:
        proxy.process.send_signal(signal.SIGCONT)
    wait_until(lambda: content(box) == before, f"the table to be as before; log:\n{proxy.log()}")
    wait_in_line(proxy)


# What takes effect


def udp_to(box, address):
    """Whether this node may send there."""
    with box.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto(b"x", (address, 9))
        except PermissionError:
            return False
        return True


def test_a_service_cidr_that_changes_takes_effect(proxy, box, monitor):
    """Packets to addresses of it that no Service has are dropped."""
    inside, outside = "172.31.0.100", "172.31.0.200"
    assert udp_to(box, inside)
    for cidr, now in (("172.31.0.96/28", False), ("172.31.0.192/28", True), ("172.31.0.0/24", False)):
        proxy.write("cidr.yaml", CIDR.replace("10.96.0.0/16", cidr))
        wait_until(lambda now=now: udp_to(box, inside) == now, f"{cidr} to take effect; log:\n{proxy.log()}")
        wait_in_line(proxy)
    assert not udp_to(box, outside)
    (proxy.manifests / "cidr.yaml").unlink()
    wait_until(lambda: udp_to(box, inside) and udp_to(box, outside), "the ServiceCIDR to go")
    assert not any("rule" in change[0] or "chain" in change[0] for one in monitor.transactions() for change in one.changes)


STICKY = with_endpoints("192.168.77.1", "172.31.0.11").replace(
    "type: NodePort", "type: ClusterIP\n  sessionAffinity: ClientIP\n  sessionAffinityConfig: {clientIP: {timeoutSeconds: 3600}}").replace(
    ", nodePort: 30080", "")


@pytest.fixture
def servers(box):
    """Two, each of which says its address; and a way for packets to the cluster IP."""
    box.ns.ip("route add 10.96.0.0/16 dev eth0")
    script = ("import socketserver, sys, threading\n"
              "class Tell(socketserver.BaseRequestHandler):\n"
              "    def handle(self): self.request.sendall(self.request.getsockname()[0].encode())\n"
              "made = [socketserver.TCPServer((one, 8080), Tell) for one in sys.argv[1:]]\n"
              "for one in made: threading.Thread(target=one.serve_forever, daemon=True).start()\n"
              "print('ready', flush=True)\n"
              "sys.stdin.read()\n")
    process = subprocess.Popen(["ip", "netns", "exec", box.ns.name, sys.executable, "-c", script, "192.168.77.1", "172.31.0.11"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    yield
    process.stdin.close()
    process.wait(10)


def who_answers(box):
    with box.ns.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect(("10.96.0.10", 80))
        return sock.recv(100).decode()


def records(box):
    """What the kernel remembers of clients: seconds until each is forgotten."""
    text = nft(box, "list", "map", "ip", "kube-proxy", "affinity")
    units = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
    return [sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)(ms|h|m|s)", one)) for one in re.findall(r"expires (\w+)", text)]


def test_a_shorter_time_out_of_affinity_counts_for_whom_the_node_knows(proxy, box, servers):
    proxy.write("web.yaml", STICKY)
    wait_for_text(proxy, "goto remember-3600")
    first = who_answers(box)
    assert {who_answers(box) for _ in range(10)} == {first}
    assert records(box) and min(records(box)) > 60
    proxy.write("web.yaml", STICKY.replace("3600", "2"))
    wait_for_text(proxy, "goto remember-2")
    wait_until(lambda: records(box) == [], f"the client to be forgotten; log:\n{proxy.log()}")
    seen = set()
    for _ in range(30):  # the dice may fall on one side a few times
        seen.add(who_answers(box))
        if len(seen) == 2:
            break
        wait_until(lambda: records(box) == [], "the client to be forgotten")
    assert len(seen) == 2


def test_a_longer_time_out_of_affinity_counts_from_the_next_connection_on(proxy, box, servers):
    proxy.write("web.yaml", STICKY.replace("3600", "5"))
    wait_for_text(proxy, "goto remember-5")
    who_answers(box)
    proxy.write("web.yaml", STICKY)
    wait_for_text(proxy, "goto remember-3600")
    first = who_answers(box)
    assert records(box) and min(records(box)) > 60
    assert {who_answers(box) for _ in range(10)} == {first}
