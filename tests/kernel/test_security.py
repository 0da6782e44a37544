"""What the daemon may do once its node is set up, what it listens on, and what guards route_localnet.

docs/security.md says all this in words.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading

import fake_api
import pytest
import sandbox as boxes
from lab.client import page
from lab.netns import Netns
from test_api import NODE, SERVICE, SLICE
from test_apply import WEB
from test_daemon import CONFIG, Daemon, daemon, wait_until  # noqa: F401  (daemon is a fixture)

CAP_DAC_READ_SEARCH, CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW = 2, 10, 12, 13
KEPT = {CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW}
METRICS = ("127.0.0.1", 10249)
HEALTH = ("any", 10256)
NOBODY = 65534


def statuses(pid):
    """The status of each thread: a list of {key: value}."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            found.append(dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line))
    return found


def capabilities(status, key):
    bits = int(status[key], 16)
    return {number for number in range(64) if bits >> number & 1}


def check_threads(pid, kept, at_least):
    threads = statuses(pid)
    assert len(threads) >= at_least
    for status in threads:
        for key in ("CapPrm", "CapEff", "CapBnd"):
            assert capabilities(status, key) == kept, (status["Name"], key)
        for key in ("CapInh", "CapAmb"):
            assert capabilities(status, key) == set(), (status["Name"], key)
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def changes_the_rules(proxy):
    """Whatever it gave up, it can still do its work, and more than once."""
    proxy.write("web.yaml", WEB)
    proxy.wait_for_rule("--to-destination 10.244.2.3:8080")
    proxy.write("web.yaml", WEB.replace("10.244.2.3", "10.244.2.77"))
    proxy.wait_for_rule("--to-destination 10.244.2.77:8080")


# What is given up.

def test_every_thread_keeps_only_what_the_mode_needs(daemon):  # noqa: F811
    proxy = daemon()
    changes_the_rules(proxy)
    assert '"Dropped privileges" capabilities="NET_BIND_SERVICE,NET_ADMIN,NET_RAW"' in proxy.log()
    assert "Could not drop" not in proxy.log()
    check_threads(proxy.process.pid, KEPT, at_least=3)


def test_files_of_another_user_stay_readable(daemon, box):  # noqa: F811
    os.chmod(box.folder, 0o755)
    manifests = pathlib.Path(box.folder) / "manifests"
    manifests.mkdir(mode=0o700)
    (manifests / "web.yaml").write_text(WEB)
    for path in (manifests, manifests / "web.yaml"):
        os.chown(path, NOBODY, NOBODY)
    proxy = daemon()
    changes_the_rules(proxy)
    assert '"Keeping a capability to read files that belong to another user" capability="DAC_READ_SEARCH"' in proxy.log()
    check_threads(proxy.process.pid, KEPT | {CAP_DAC_READ_SEARCH}, at_least=3)


def test_all_is_kept_if_that_is_asked_for(daemon):  # noqa: F811
    proxy = daemon("--keep-privileges")
    changes_the_rules(proxy)
    ours = capabilities(statuses("self")[0], "CapEff")
    for status in statuses(proxy.process.pid):
        assert capabilities(status, "CapEff") == ours
        assert status["Seccomp"] == statuses("self")[0]["Seccomp"]


class InPod(Daemon):
    """As packaging/least-privilege.yaml runs it: few capabilities from the start, and sysctls that cannot be written."""

    def start(self, *flags, config=CONFIG):
        config_file = self.box.file("config.yaml", config)
        script = """mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys &&
            exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+net_admin,+net_raw,+net_bind_service "$@" """
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.box.ns.name, "unshare", "--mount", "sh", "-c", script, "sh", boxes.BINARY,
             f"--config={config_file}", f"--manifests={self.manifests}", "-v=2", *flags],
            env=self.box.environment(), stderr=open(self.log_path, "a"), stdin=subprocess.DEVNULL)


def test_after_init_only_it_runs_with_less_from_the_start(box):
    (pathlib.Path(box.folder) / "manifests").mkdir()
    prepared = box.proxy(f"--config={box.file('config.yaml', CONFIG)}", f"--manifests={box.folder}/manifests", "--init-only")
    assert prepared.returncode == 0, prepared.stderr
    proxy = InPod(box)
    try:
        changes_the_rules(proxy)
        assert "Could not drop" not in proxy.log()
        check_threads(proxy.process.pid, KEPT, at_least=3)
    finally:
        proxy.stop(signal.SIGKILL)


# What a program that it starts may do, with an API server behind TLS and a name that is looked up: so there is a thread
# before anything is dropped.

PLUGIN = """#!/bin/sh
unshare --user true 2>/dev/null && user_namespace=fine || user_namespace=refused
while read -r key value; do [ "$key" = CapEff: ] && effective=$value; done </proc/self/status
echo "$effective $user_namespace" >>{report}
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
       "status": {{"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}}}}'
"""


class TlsFront:
    """Takes TLS off in front of a server in the same namespace."""

    def __init__(self, netns, folder, target):
        self._netns, self._target = netns, target
        certificate, key = f"{folder}/tls.crt", f"{folder}/tls.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                        "-subj", "/CN=localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener = netns.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(50)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError), self._context.wrap_socket(connection, server_side=True) as client:
            with self._netns.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
                server.connect(self._target)
                threading.Thread(target=self._copy, args=(client, server), daemon=True).start()
                self._copy(server, client)

    @staticmethod
    def _copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def guarded_api(box):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (package openssl)")
    api = fake_api.FakeApi(box.ns, [NODE, SERVICE, SLICE])
    front = TlsFront(box.ns, box.folder, ("127.0.0.1", int(api.url.rpartition(":")[2])))
    yield api, f"https://localhost:{front.port}"
    front.close()
    api.close()


def start_with_plugin(box, server):
    report = pathlib.Path(box.folder) / "report"
    plugin = box.file("plugin", PLUGIN.format(report=report))
    plugin.chmod(0o755)
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "current-context": "c",
                  "clusters": [{"name": "k", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
                  "users": [{"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin),
                                                            "interactiveMode": "Never"}}}],
                  "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}
    config = box.file("config.yaml", CONFIG + f"clientConnection: {{kubeconfig: {box.file('kubeconfig', json.dumps(kubeconfig))}}}\n")
    log = pathlib.Path(box.folder) / "log"
    process = subprocess.Popen(["ip", "netns", "exec", box.ns.name, boxes.BINARY, f"--config={config}", "-v=2"],
                               env=box.environment(), stderr=open(log, "a"), stdin=subprocess.DEVNULL)
    return process, report, log


def test_a_credential_plugin_gets_no_more_than_is_left(box, guarded_api):
    api, server = guarded_api
    process, report, log = start_with_plugin(box, server)
    try:
        wait_until(lambda: "--to-destination 10.244.1.5:8080" in box.save(), "the rules")
        check_threads(process.pid, KEPT, at_least=4)  # the one that looks names up is among them
        before = len(report.read_text().splitlines())
        api.hang_up()  # to be connected again it needs new credentials
        wait_until(lambda: len(report.read_text().splitlines()) > before, f"the plugin to run again; log:\n{log.read_text()}")
        effective, user_namespace = report.read_text().splitlines()[-1].split()
        assert {number for number in range(64) if int(effective, 16) >> number & 1} == KEPT
        assert user_namespace == "refused"
    finally:
        process.kill()
        process.wait(10)


# What listens.

def listeners(box):
    """{protocol: {(address, port)}} of all sockets in the namespace that wait for somebody."""
    found = {}
    for protocol in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6"):
        lines = box.run("cat", f"/proc/net/{protocol}").stdout.splitlines()[1:]
        for fields in map(str.split, lines):
            if protocol.startswith("tcp") and fields[3] != "0A":
                continue
            address, port = fields[1].split(":")
            text = "any" if set(address) == {"0"} else socket.inet_ntop(socket.AF_INET, bytes.fromhex(address)[::-1]) if len(address) == 8 else address
            found.setdefault(protocol[:3], set()).add((text, int(port, 16)))
    return found


def test_nothing_listens_but_what_is_configured(daemon, box):  # noqa: F811
    proxy = daemon()
    changes_the_rules(proxy)
    open_now = listeners(box)
    assert set(open_now) == {"tcp"}
    assert METRICS in open_now["tcp"]
    assert open_now["tcp"] <= {METRICS, HEALTH}


def test_addresses_are_bound_as_told(daemon, box):  # noqa: F811
    proxy = daemon(config=CONFIG + "metricsBindAddress: 172.31.0.11:9100\nhealthzBindAddress: 192.168.77.1:9101\n")
    changes_the_rules(proxy)
    open_now = listeners(box)
    assert ("172.31.0.11", 9100) in open_now["tcp"]
    assert open_now["tcp"] <= {("172.31.0.11", 9100), ("192.168.77.1", 9101)}


@pytest.mark.parametrize("said", [b"", b"GET /met"], ids=["nothing", "half"])
def test_clients_that_do_not_get_their_request_said_keep_nobody_out(daemon, box, said):  # noqa: F811
    proxy = daemon()
    proxy.wait_for_log("Synced rules")
    with contextlib.ExitStack() as silent:
        for _ in range(400):
            sock = silent.enter_context(box.ns.socket(socket.AF_INET, socket.SOCK_STREAM))
            sock.settimeout(5.0)
            sock.connect(METRICS)
            sock.send(said)
        assert page(box.ns, METRICS[1], "/proxyMode") == "iptables"


# route_localnet=1 lets packets for 127.0.0.0/8 in from outside (CVE-2020-8558); a rule of KUBE-FIREWALL keeps them out.

class Answering:
    """Says one word to whoever connects."""

    def __init__(self, netns, address, word):
        self._listener = netns.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.bind((address, 8080))
        self._listener.listen(10)
        self._word = word
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                with self._listener.accept()[0] as connection:
                    connection.sendall(self._word)

    def close(self):
        self._listener.close()


def ask(netns, address, port, seconds=1.0):
    with netns.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(seconds)
        try:
            sock.connect((address, port))
            return sock.recv(100)
        except OSError as error:
            return type(error).__name__


@pytest.fixture
def neighbour(box):
    """Another machine on the node's link, whose administrator sends what he likes."""
    other = Netns(f"{box.ns.name}n")
    box.ns.ip(f"link set eth0p netns {other.name}")
    other.ip("addr add 172.31.0.99/24 dev eth0p", "link set eth0p up")
    other.sysctl({"ipv4/conf/all/route_localnet": 1})
    other.ip("route add 127.0.0.1/32 via 172.31.0.11 dev eth0p")
    yield other
    other.close()


def test_neighbours_do_not_reach_what_listens_on_loopback(box, neighbour, daemon):  # noqa: F811
    with contextlib.closing(Answering(box.ns, "127.0.0.1", b"secret")), contextlib.closing(Answering(neighbour, "172.31.0.99", b"pod")):
        box.ns.sysctl({"ipv4/conf/all/route_localnet": 1})
        assert ask(neighbour, "127.0.0.1", 8080, seconds=10) == b"secret", "without a guard it is open"
        proxy = daemon()
        proxy.write("web.yaml", WEB.replace("10.244.2.3", "172.31.0.99").replace("{addresses: [10.244.1.2]}, ", ""))
        proxy.wait_for_rule("KUBE-FIREWALL", "127.0.0.0/8")
        proxy.wait_for_rule("--to-destination 172.31.0.99:8080")
        assert ask(neighbour, "127.0.0.1", 8080) == "TimeoutError"
        assert ask(box.ns, "127.0.0.1", 30080, seconds=10) == b"pod", "node ports on localhost are what it is on for"
        assert ask(box.ns, "127.0.0.1", 8080, seconds=10) == b"secret"


def test_without_localhost_node_ports_there_is_neither_setting_nor_need(box, daemon):  # noqa: F811
    proxy = daemon(config=CONFIG.replace("iptables: {", "iptables: {localhostNodePorts: false, "))
    proxy.wait_for_log("Synced rules")
    assert box.run("cat", "/proc/sys/net/ipv4/conf/all/route_localnet").stdout.strip() == "0"
    assert not re.search(r"KUBE-FIREWALL.*127\.0\.0\.0/8", box.save())
