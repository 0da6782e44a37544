"""A node whose daemon is in mode userspace, for tests with traffic that it carries itself."""

import contextlib
import select
import socket
import struct
import threading

import lab
import pytest
import sandbox as boxes
from lab import objects, usage
from pages import ask
from test_tcp_reset import Connection

PORT = 8080
PODS = ("web1a", "web1b")
VIP = {4: "10.96.1.1", 6: "fd00:10:96::11"}
OTHER_VIP = {4: "10.96.1.2", 6: "fd00:10:96::12"}
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
PATIENCE_S = 20 * lab.SLACK
MUCH = 8 << 20  # bytes; more than sockets and pipes hold together


class World:
    """One node with the daemon, pods that do what a test says, and a client."""

    def __init__(self, variant, flags=(), config=None, binary=boxes.BINARY):
        self.mode = lab.Mode("userspace", variant)
        self.cluster = lab.Cluster("kpu", nodes={"node1": "zone-a"}, outsiders={"ext1": "node1"},
                                   pods=dict.fromkeys(("client1", "marker", *PODS), "node1"))
        self._open = contextlib.ExitStack()
        self._listeners = {}
        try:
            self._start(flags, config, binary)
        except BaseException:
            self.close()
            raise

    def _start(self, flags, config, binary):
        self.cluster.serve("marker", tcp=[PORT], udp=[PORT])
        self.cluster.wait_serving()
        self.manifests = lab.Manifests(self.cluster.state / "manifests")
        self.manifests.put(*self.cluster.node_objects())
        self.marker = lab.Marker(self.cluster, self.manifests, "marker", PORT, self.mode)
        self.daemon = lab.Daemon(self.cluster, "node1", binary, self.manifests, self.mode, config, flags)

    def close(self):
        self._open.close()
        self.cluster.close()

    def keep(self, sock):
        """A socket that waits no longer than a test may, and is closed with the world."""
        sock.settimeout(PATIENCE_S)
        return self._open.enter_context(sock)

    # The Service

    def service(self, pods, protocol="TCP", name="web", vips=VIP, annotations=None, conditions=None, **spec):
        """Writes a Service with these endpoints, and waits until node1 has it."""
        service = objects.service(name, [vips[4], vips[6]], [objects.port(80, protocol)], **spec)
        if annotations:
            service["metadata"]["annotations"] = annotations
        self.manifests.put(
            *(objects.endpoint_slice(name, [self.cluster.endpoint(pod, family, **(conditions or {})) for pod in pods],
                                     [objects.port(PORT, protocol)], suffix=f"v{family}") for family in (4, 6)), service)
        self.wait()

    def wait(self):
        self.marker.wait(["node1"], daemons=[self.daemon])

    # Pods

    def listen(self, pod):
        """A pod's socket for both families."""
        if pod not in self._listeners:
            sock = self.keep(self.cluster[pod].netns.socket(socket.AF_INET6, socket.SOCK_STREAM))
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.bind(("::", PORT))
            sock.listen(128)
            self._listeners[pod] = sock
        return self._listeners[pod]

    def accept(self, pod):
        return self.keep(self.listen(pod).accept()[0])

    def datagrams(self, pod):
        sock = self.keep(self.cluster[pod].netns.socket(socket.AF_INET6, socket.SOCK_DGRAM))
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", PORT))
        return sock

    # Clients

    def client(self, family=4, address=None, member="client1", kind=socket.SOCK_STREAM):
        sock = self.keep(self.cluster[member].netns.socket(FAMILIES[family], kind))
        sock.connect((address or VIP[family], 80))
        return sock

    def connect(self, pod="web1a", **options):
        """A connection that this pod, the only one of the Service, has accepted."""
        self.listen(pod)
        made = Connection(self.client(**options), self.accept(pod))
        assert made.works()
        return made

    def served_by(self, pods=PODS, **options):
        """Which of the pods a new connection reaches. It is closed."""
        with self.client(**options) as client:
            ready, _, _ = select.select([self.listen(pod) for pod in pods], [], [], PATIENCE_S)
            (pod,) = (pod for pod in pods if self.listen(pod) in ready)
            with self.accept(pod) as server:
                assert Connection(client, server).works()
        return pod

    # The daemon

    def descriptors(self):
        return len(usage.descriptors(self.daemon.pid))

    def memory_mb(self):
        return usage.memory_mb(self.daemon.pid)["VmRSS"]

    def healthy(self):
        return self.daemon.running() and ask(self.cluster["node1"].netns, 10256, "/healthz").status == 200

    def rules(self):
        """What iptables-save prints, without counters and comments."""
        return [line.partition(" [")[0] for line in self.mode.rules(self.cluster, "node1").splitlines() if not line.startswith("#")]


@pytest.fixture
def world(variant):
    made = []

    def make(*flags, **options):
        made.append(World(variant, flags, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def one_pod(world):
    made = world()
    made.listen("web1a")
    made.service(["web1a"])
    return made


@pytest.fixture
def udp(world):
    def make(idle="250ms", pods=PODS[:1]):
        made = world(config={"udpIdleTimeout": idle})
        made.service(pods, "UDP")
        return made

    return make


# Both ends of a connection

def send_all(sock, data):
    """In a thread of its own; join() it."""
    def send():
        with contextlib.suppress(OSError):
            sock.sendall(data)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def receive(sock, count):
    data = bytearray()
    while len(data) < count and (block := sock.recv(min(1 << 20, count - len(data)))):
        data += block
    return bytes(data)


def receive_to_end(sock):
    data = bytearray()
    while block := sock.recv(1 << 20):
        data += block
    return bytes(data)


def reset(sock):
    """Closes it as a process does that is in trouble."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def exchange(client, server, payload=b"ping"):
    """Sends it to the server and back; returns as whom the server has seen the client."""
    client.send(payload)
    received, peer = server.recvfrom(1 << 16)
    assert received == payload
    server.sendto(payload[::-1], peer)
    assert client.recv(1 << 16) == payload[::-1]
    return peer[:2]
