"""--tcp-reset-after: TCP connections to endpoints that are gone for good end, instead of hanging."""

import errno
import os
import socket

import lab
import pytest
import sandbox as boxes
from lab import objects

DRAIN_S = 1
PORT = 8080
PODS = ("web1a", "web2a", "web2b")
VIP = {4: "10.96.1.1", 6: "fd00:10:96::11"}
OTHER_VIP = {4: "10.96.1.2", 6: "fd00:10:96::12"}
NODE_PORT = 30080
PATIENCE_S = 15 * lab.SLACK


class Connection:
    """Both ends of a connection to a Service."""

    def __init__(self, client, server):
        self.client, self.server = client, server

    def works(self):
        for one, other in ((self.client, self.server), (self.server, self.client)):
            one.sendall(b"x")
            if other.recv(1) != b"x":
                return False
        return True

    def close(self):
        self.client.close()
        self.server.close()


def error_of(end):
    """What a reader is told when its connection ends."""
    try:
        return f"read {end.recv(1)}"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


class World:
    """A cluster whose pods do nothing but hold connections, with the proxy on node1."""

    def __init__(self, variant, *flags):
        self.cluster = lab.Cluster("kpr")
        self._open = []
        self._listeners = {}
        try:
            self._start(variant, flags)
        except BaseException:
            self.cluster.close()
            raise

    def _start(self, variant, flags):
        for pod in PODS:
            self._listeners[pod] = self._listen(pod)
        self.cluster.serve("web1b", tcp=[PORT])
        self.cluster.wait_serving()
        self.manifests = lab.Manifests(self.cluster.state / "manifests")
        self.manifests.put(*self.cluster.node_objects())
        self.marker = lab.Marker(self.cluster, self.manifests, "web1b", PORT)
        self.mode = lab.Mode("iptables", variant)
        self.daemon = lab.Daemon(self.cluster, "node1", boxes.BINARY, self.manifests, self.mode, flags=flags)

    def _listen(self, pod):
        """One socket for both families; accepting from it does not wait longer than a test may."""
        sock = self.cluster[pod].netns.socket(socket.AF_INET6, socket.SOCK_STREAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", PORT))
        sock.listen()
        sock.settimeout(PATIENCE_S)
        return sock

    def close(self):
        for one in (*self._open, *self._listeners.values()):
            one.close()
        self.cluster.close()

    def service(self, pods, name="web", vips=VIP, node_port=NODE_PORT, **conditions):
        """Writes a Service with these endpoints, and waits until node1 has it."""
        port = objects.port(80, node_port=node_port)
        self.manifests.put(
            *(objects.endpoint_slice(name, [self.cluster.endpoint(pod, family, **conditions) for pod in pods],
                                     [objects.port(PORT)], suffix=f"v{family}") for family in (4, 6)),
            objects.service(name, [vips[4], vips[6]], [port], type="NodePort"))
        self.wait()

    def wait(self):
        self.marker.wait(["node1"], daemons=[self.daemon])

    def connect(self, client, pod, family=4, address=None, port=80, source=None):
        """A connection through node1 that the given pod has answered."""
        sock = self.cluster[client].netns.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        sock.settimeout(PATIENCE_S)
        if source:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(source)
        sock.connect((address or VIP[family], port))
        server, _ = self._listeners[pod].accept()
        server.settimeout(PATIENCE_S)
        made = Connection(sock, server)
        self._open.append(made)
        assert made.works()
        return made

    def wait_for_reset(self, count=1):
        lab.wait_for(lambda: self.daemon.log_text().count("Reset connections to removed endpoints") >= count,
                     "a log line about connections that were reset", PATIENCE_S)

    def rules_of_resets(self):
        return [line for family in ("ip", "ip6")
                for line in self.cluster.run("node1", ["nft", "list", "table", family, "kube-proxy-resets"]).stdout.splitlines()]


@pytest.fixture
def world(variant):
    made = []

    def make(*flags):
        made.append(World(variant, *flags))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def resetting(world):
    return world(f"--tcp-reset-after={DRAIN_S}s")


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("client,to_node_port", [("client1", False), ("node1", False), ("ext1", False), ("ext1", True)])
def test_both_ends_of_an_idle_connection_are_reset(resetting, family, client, to_node_port):
    resetting.service(["web2a"])
    address, port = (resetting.cluster.address("node1", family), NODE_PORT) if to_node_port else (VIP[family], 80)
    held = resetting.connect(client, "web2a", family, address, port)
    resetting.service([])
    assert error_of(held.client) == "ECONNRESET"
    assert error_of(held.server) == "ECONNRESET"


def test_a_client_that_writes_to_a_pod_that_is_gone_is_reset(resetting):
    resetting.service(["web2a"])
    held = resetting.connect("client1", "web2a")
    # As when a pod is killed: nobody is left to answer.
    resetting.cluster["web2a"].netns.ip("link set eth0 down")
    held.client.sendall(b"x")
    resetting.service([])
    assert error_of(held.client) == "ECONNRESET"


def test_connections_to_other_endpoints_go_on(resetting):
    resetting.service(["web2a"])
    doomed = resetting.connect("client1", "web2a")
    resetting.service(["web2b"])
    other = resetting.connect("client1", "web2b")
    assert error_of(doomed.client) == "ECONNRESET"
    assert other.works()


def test_a_terminating_endpoint_keeps_its_connections(resetting):
    resetting.service(["web2a", "web2b"])
    resetting.service(["web2a"])  # the last one to be terminated is still used
    held = resetting.connect("client1", "web2a")
    resetting.service(["web2a"], ready=False, terminating=True)
    gone = resetting_of_another_service(resetting)
    assert error_of(gone.client) == "ECONNRESET"
    assert held.works()


def resetting_of_another_service(world):
    """A connection whose endpoint goes now: when it is reset, whatever went before it would be reset as well."""
    world.service(["web1a"], "other", OTHER_VIP, NODE_PORT + 1)
    held = world.connect("client1", "web1a", address=OTHER_VIP[4])
    world.service([], "other", OTHER_VIP, NODE_PORT + 1)
    return held


def test_an_endpoint_that_comes_back_in_time_keeps_its_connections(world):
    made = world("--tcp-reset-after=5s")
    made.service(["web2a"])
    held = made.connect("client1", "web2a")
    made.service([])
    made.service(["web2a"])
    gone = resetting_of_another_service(made)
    assert error_of(gone.client) == "ECONNRESET"
    assert held.works()


def test_an_endpoint_that_another_service_has_keeps_its_connections(resetting):
    resetting.service(["web2a"], "twin", {4: "10.96.1.3", 6: "fd00:10:96::13"}, NODE_PORT + 2)
    resetting.service(["web2a"])
    held = resetting.connect("client1", "web2a")
    resetting.service([])
    gone = resetting_of_another_service(resetting)
    assert error_of(gone.client) == "ECONNRESET"
    assert held.works()


def test_the_connections_of_a_deleted_service_are_reset(resetting):
    resetting.service(["web2a"])
    held = resetting.connect("client1", "web2a")
    resetting.manifests.delete(("Service", "default", "web"), *(("EndpointSlice", "default", f"web-v{family}") for family in (4, 6)))
    assert error_of(held.client) == "ECONNRESET"


def test_a_new_connection_from_the_same_port_works_at_once(resetting):
    resetting.service(["web2a"])
    held = resetting.connect("client1", "web2a")
    source = held.client.getsockname()
    resetting.service(["web2b"])
    assert error_of(held.client) == "ECONNRESET"
    held.close()
    assert resetting.connect("client1", "web2b", source=source).works()


def test_what_went_while_no_proxy_ran_is_reset_after_the_start(resetting):
    resetting.service(["web2a"])
    held = resetting.connect("client1", "web2a")
    resetting.daemon.stop()
    resetting.manifests.put(*(objects.endpoint_slice("web", [resetting.cluster.endpoint("web2b", family)], [objects.port(PORT)],
                                                     suffix=f"v{family}") for family in (4, 6)))
    resetting.daemon.start()
    assert error_of(held.client) == "ECONNRESET"


def test_the_rules_of_the_mode_are_not_touched(resetting):
    resetting.service(["web2a"])
    resetting.connect("client1", "web2a")
    resetting.service(["web2b"])
    before = rules(resetting)
    resetting.wait_for_reset()
    assert rules(resetting) == before


def rules(world):
    """What iptables-save prints, without counters and comments."""
    return [line.partition(" [")[0] for line in world.mode.rules(world.cluster, "node1").splitlines() if not line.startswith("#")]


@pytest.mark.skipif(not os.path.exists("/usr/sbin/nft"), reason="needs the program nft")
def test_without_the_flag_connections_are_left_alone(world):
    made = world()
    made.service(["web2a"])
    held = made.connect("client1", "web2a")
    made.service([])
    made.wait()
    assert held.works()
    assert made.rules_of_resets() == []
