"""Tracked connections on a node with real traffic: which are flushed, and above all which are not.

Where packets end up when endpoints change is in tests/behaviour; here is what only the table itself shows.
"""

import socket
import struct

import lab
import pytest
import sandbox as boxes
from lab import conntrack, objects

VIP, OTHER_VIP = "10.96.1.1", "10.96.1.2"
NODE_PORT = 30040
CLIENT_PORT = 40040
UNACKNOWLEDGED_S = 300  # the kernel's limit while something sent has not been acknowledged


class World:
    """A node with pods, a neighbour, an outsider, and a proxy on the node."""

    def __init__(self, variant):
        self.cluster = lab.Cluster("kpct", pods={"client1": "node1", "web1a": "node1", "web1b": "node1", "web2a": "node2"},
                                   outsiders={"ext1": "node1"}, dual_stack=False)
        try:
            for name in ("web1a", "web1b", "web2a", "ext1"):
                self.cluster.serve(name, tcp=[8080], udp=[8080, NODE_PORT])
            self.cluster.serve("node2", udp=[NODE_PORT])
            self.cluster.wait_serving()
            self.manifests = lab.Manifests(self.cluster.state / "manifests")
            self.marker = lab.Marker(self.cluster, self.manifests, "web1a", 8080)
            self.manifests.put(*self.cluster.node_objects())
            self.mode = lab.Mode("iptables", variant)
            self.daemon = lab.Daemon(self.cluster, "node1", boxes.BINARY, self.manifests, self.mode)
        except BaseException:
            self.cluster.close()
            raise

    def dns(self, *pods, **spec):
        """The Service that everything is about, on UDP and TCP, with a node port, and these pods behind it."""
        ports = [objects.port(80, "UDP", "dns", NODE_PORT), objects.port(80, "TCP", "http")]
        targets = [objects.port(8080, "UDP", "dns"), objects.port(8080, "TCP", "http")]
        return [objects.service("dns", VIP, ports, type="NodePort", **spec),
                objects.endpoint_slice("dns", [self.cluster.endpoint(pod) for pod in pods], targets)]

    def other(self, *pods):
        return [objects.service("other", OTHER_VIP, [objects.port(80, "UDP", "dns")]),
                objects.endpoint_slice("other", [self.cluster.endpoint(pod) for pod in pods], [objects.port(8080, "UDP", "dns")])]

    def become(self, *made):
        """Makes these all the Services there are, and waits until they are in the kernel and stale flows are gone.

        The marker's answer says that the rules of the sync before it are written and that what follows a sync is done.
        """
        self.manifests.replace([*self.cluster.node_objects(), *made, *self.marker.objects()])
        self.marker.wait(["node1"], daemons=[self.daemon])
        self.marker.wait(["node1"], daemons=[self.daemon])

    def send(self, client, address, port=80, expect=None, protocol="udp"):
        """One request from the client's usual port; its entry."""
        result = self.cluster.request(client, protocol, address, port, source_port=CLIENT_PORT)
        assert result.pod == expect, f"{client} to {address}:{port}: {result}"
        return self.entry(client, address, port, protocol)

    def entry(self, client, address, port=80, protocol="udp"):
        """The one entry from there to here; None if there is none."""
        own = self.cluster.addresses(client)
        found = [one for one in conntrack.flows(self.cluster["node1"].netns, protocol)
                 if one.source[0] in own and one.source[1] == CLIENT_PORT and one.destination == (address, port)]
        assert len(found) <= 1, found
        return found[0] if found else None


@pytest.fixture(scope="module")
def built(request):
    missing = lab.missing_capabilities()
    if missing:
        pytest.skip("missing: " + ", ".join(missing))
    made = World(request.config.getoption("--variant"))
    yield made
    made.cluster.close()


@pytest.fixture
def world(built):
    yield built
    if not built.daemon.running():
        built.daemon.start()
    built.become()


def test_a_change_flushes_the_flows_to_what_is_gone_and_no_other(world):
    cluster = world.cluster
    node, neighbour, outside = (cluster.address(name) for name in ("node1", "node2", "ext1"))
    world.become(*world.dns("web1a"), *world.other("web1a"))
    gone = [world.send("client1", VIP, expect="web1a"), world.send("ext1", node, NODE_PORT, expect="web1a"),
            world.send("node1", VIP, expect="web1a")]
    kept = [
        world.send("client1", OTHER_VIP, expect="web1a"),
        world.send("client1", outside, NODE_PORT, expect="ext1"),  # looks like a node port, but is nobody's business
        world.send("client1", neighbour, NODE_PORT, expect="node2"),
        world.send("client1", cluster.address("web1a"), 8080, expect="web1a"),
        world.send("client1", VIP, expect="web1a", protocol="tcp"),
    ]
    assert all(gone) and all(kept)
    world.become(*world.dns("web1b"), *world.other("web1a"))
    udp = conntrack.flows(cluster["node1"].netns)
    assert not [one for one in gone if one in udp]
    left = [*udp, *conntrack.flows(cluster["node1"].netns, "tcp")]
    assert [one for one in kept if one not in left] == []
    assert world.send("client1", VIP, expect="web1b").answers == (cluster.address("web1b"), 8080)


def test_a_flow_keeps_its_endpoint_when_others_come_and_go(world):
    world.become(*world.dns("web1a"))
    first = world.send("client1", VIP, expect="web1a")
    for pods in (["web1a", "web1b"], ["web1a", "web1b", "web2a"], ["web1a"]):
        world.become(*world.dns(*pods))
        assert world.send("client1", VIP, expect="web1a") == first, f"with {pods}"


def test_a_flow_keeps_an_endpoint_that_drains(world):
    world.become(*world.dns("web1a"))
    first = world.send("client1", VIP, expect="web1a")
    service, both = world.dns("web1a", "web1b")
    both["endpoints"][0]["conditions"] = {"ready": False, "serving": True, "terminating": True}
    world.become(service, both)
    assert world.send("client1", VIP, expect="web1a") == first


def test_a_flow_from_before_the_service_is_flushed(world):
    """Case 41: what a client sent too early must not keep it from the endpoints that come."""
    world.become()
    node = world.cluster.address("node1")
    with (world.cluster["node1"].netns.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
          world.cluster["ext1"].netns.socket(socket.AF_INET, socket.SOCK_DGRAM) as client):
        server.bind(("0.0.0.0", NODE_PORT))  # a refused packet leaves no entry, so somebody takes it
        client.bind(("0.0.0.0", CLIENT_PORT))
        client.sendto(b"early", (node, NODE_PORT))
        server.settimeout(5)
        assert server.recv(100) == b"early"
    early = world.entry("ext1", node, NODE_PORT)
    assert early and early.answers == early.destination
    world.become(*world.dns("web1a"))
    late = world.send("ext1", node, NODE_PORT, expect="web1a")
    assert late.answers == (world.cluster.address("web1a"), 8080) and late != early


def test_scaled_to_zero_and_back(world):
    """Beyond the real one, which leaves the flow in a black hole until the client is quiet for long enough."""
    world.become(*world.dns("web1a"))
    assert world.send("client1", VIP, expect="web1a")
    world.become(*world.dns())
    assert world.entry("client1", VIP) is None
    assert world.cluster.request("client1", "udp", VIP, 80, source_port=CLIENT_PORT).kind == "refused"
    world.become(*world.dns("web1b"))
    assert world.send("client1", VIP, expect="web1b")


def test_a_deleted_service_takes_its_flows_along(world):
    node = world.cluster.address("node1")
    world.become(*world.dns("web1a"), *world.other("web1a"))
    gone = [world.send("client1", VIP, expect="web1a"), world.send("ext1", node, NODE_PORT, expect="web1a")]
    kept = world.send("client1", OTHER_VIP, expect="web1a")
    world.become(*world.other("web1a"))
    left = conntrack.flows(world.cluster["node1"].netns)
    assert kept in left and not [one for one in gone if one in left]


def test_a_load_balancer_address_that_is_removed_takes_its_flows_along(world):
    address = "203.0.113.7"
    world.become(*world.dns("web1a", load_balancer_ips=[address]))
    gone = world.send("ext1", address, expect="web1a")
    kept = world.send("client1", VIP, expect="web1a")
    world.become(*world.dns("web1a"))
    left = conntrack.flows(world.cluster["node1"].netns)
    assert kept in left and gone not in left


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_flushes_only_what_went_stale_meanwhile(world, end):
    world.become(*world.dns("web1a"), *world.other("web1a"))
    stale = world.send("client1", VIP, expect="web1a")
    valid = [world.send("client1", OTHER_VIP, expect="web1a"), world.send("client1", world.cluster.address("ext1"), NODE_PORT, expect="ext1")]
    getattr(world.daemon, end)()
    world.daemon.start()
    world.become(*world.dns("web1a"), *world.other("web1a"))
    left = conntrack.flows(world.cluster["node1"].netns)
    assert [one for one in (stale, *valid) if one not in left] == [], "nothing has changed"

    getattr(world.daemon, end)()
    world.manifests.put(*world.dns("web1b"))
    world.daemon.start()
    world.become(*world.dns("web1b"), *world.other("web1a"))
    left = conntrack.flows(world.cluster["node1"].netns)
    assert stale not in left
    assert [one for one in valid if one not in left] == []


def next_numbers(sock):
    """Of the bytes that a TCP socket sends and receives next."""
    repair, queue, number, off_without_probe = 19, 20, 21, -1  # <linux/tcp.h>
    found = []
    sock.setsockopt(socket.IPPROTO_TCP, repair, 1)
    for sending_then_receiving in (2, 1):
        sock.setsockopt(socket.IPPROTO_TCP, queue, sending_then_receiving)
        found.append(sock.getsockopt(socket.IPPROTO_TCP, number) & 0xffffffff)
    sock.setsockopt(socket.IPPROTO_TCP, repair, off_without_probe)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # which the other option has taken away
    return found


def stray_segment(source, destination, sends, receives):
    """A TCP segment far ahead of the window, which conntrack takes for part of no connection. A stranger who gets it
    answers with a reset that the sender's connection must believe."""
    def checksum(data):
        total = sum(struct.unpack(f"!{len(data) // 2}H", data))
        while total >> 16:
            total = (total & 0xffff) + (total >> 16)
        return ~total & 0xffff

    def segment(check):
        far = (sends + (1 << 30)) & 0xffffffff
        return struct.pack("!HHIIBBHHH", source[1], destination[1], far, receives, 5 << 4, 0x10, 1024, check, 0) + b"boom"

    ends = socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
    return segment(checksum(ends + struct.pack("!HH", socket.IPPROTO_TCP, len(segment(0))) + segment(0)))


def survives_a_stray_segment(world, port=8099):
    """Sends one from the server's pod in the middle of a connection to the cluster IP. Does the connection go on?

    As part of no connection the segment keeps the pod's address, and the client, which talks to another, resets it.
    """
    pod = world.cluster["web2a"]
    with (pod.netns.socket(socket.AF_INET, socket.SOCK_STREAM) as listener,
          world.cluster["client1"].netns.socket(socket.AF_INET, socket.SOCK_STREAM) as client):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((pod.ipv4, port))
        listener.listen()
        for one in (client, listener):
            one.settimeout(5)
        client.connect((VIP, port))
        server, peer = listener.accept()
        with pod.netns.entered():
            stray = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
        with server, stray:
            server.settimeout(5)
            client.sendall(b"before")
            assert server.recv(100) == b"before"
            stray.sendto(stray_segment((pod.ipv4, port), peer, *next_numbers(server)), (peer[0], 0))
            try:
                server.sendall(b"behind the stray one, on the same way")
                assert client.recv(100)
                client.sendall(b"behind the reset, if there was one")
                return bool(server.recv(100))
            except ConnectionResetError:
                return False


def test_a_stray_segment_does_not_reset_a_connection(world):
    """Case 42."""
    world.become(objects.service("stray", VIP, [objects.port(8099)]),
                 objects.endpoint_slice("stray", [world.cluster.endpoint("web2a")], [objects.port(8099)]))
    assert survives_a_stray_segment(world)
    # It is the rules that save it, not luck.
    world.daemon.stop()
    world.mode.run(world.cluster, "node1", ["iptables", "-w", "5", "-F", "KUBE-FORWARD"])
    assert not survives_a_stray_segment(world)


def test_the_close_wait_timeout_is_that_of_the_configuration(world):
    """Case 44."""
    world.become(*world.dns("web1a"))
    world.daemon.stop()
    world.daemon.configure({"conntrack": {"tcpCloseWaitTimeout": "47m"}})
    world.daemon.start()
    world.become(*world.dns("web1a"))
    with world.cluster["client1"].netns.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        client.bind(("0.0.0.0", 0))
        client.connect((VIP, 80))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while client.recv(4096):
            pass
        # The server has closed its side, and the client has not.
        port = client.getsockname()[1]

        def waiting():
            # Until the client's last acknowledgement has passed, the kernel gives the connection less time.
            return [one for one in conntrack.flows(world.cluster["node1"].netns, "tcp")
                    if one.source[1] == port and one.tcp_state == conntrack.CLOSE_WAIT and one.timeout > UNACKNOWLEDGED_S]

        entry = lab.wait_for(waiting, "the connection waits to be closed")[0]
        assert 46 * 60 < entry.timeout <= 47 * 60
    world.daemon.stop()
    world.daemon.configure()
