"""Mode userspace: a daemon that comes back, and one that comes back in another mode."""

import socket

import lab
import pytest
import sandbox as boxes
from lab import objects
from test_tcp_reset import error_of
from userspace_world import OTHER_VIP, PATIENCE_S, PORT, VIP, exchange, udp, world  # noqa: F401

NODE_PORT = 30080


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_under_load_ends_what_there_is_and_serves_again(world, end):  # noqa: F811
    made = world()
    made.listen("web1b")
    made.service(["web1b"], name="other", vips=OTHER_VIP)
    made.service(["marker"])
    held = made.connect("web1b", address=OTHER_VIP[4])
    flows = [lab.Flow("probes", member, "tcp", VIP[family], 80, pause=0.01) for member in ("client1", "ext1") for family in (4, 6)]
    with lab.Traffic(made.cluster, flows) as traffic:
        traffic.wait_answers()
        before = made.rules()
        for _ in range(3):
            getattr(made.daemon, end)()
            assert error_of(held.client) in ("ECONNRESET", "read b''")
            made.daemon.start()
            made.wait()
            traffic.wait_answers()
            held = made.connect("web1b", address=OTHER_VIP[4])
        after = made.rules()
    assert without_marker(after) == without_marker(before)


def without_marker(rules):
    return [rule for rule in rules if "lab-marker" not in rule]


def test_datagrams_of_a_client_go_on_after_a_restart(udp):  # noqa: F811
    made = udp("60s")
    server = made.datagrams("web1a")
    clients = {family: made.client(family, kind=socket.SOCK_DGRAM) for family in (4, 6)}
    for client in clients.values():
        exchange(client, server)
    before = made.rules()
    made.daemon.kill()
    made.daemon.start()
    made.wait()
    for client in clients.values():
        exchange(client, server)
    assert without_marker(made.rules()) == without_marker(before)


def test_datagrams_of_a_client_find_the_port_that_a_restart_has_taken_instead(udp):  # noqa: F811
    made = udp("60s")
    server = made.datagrams("web1a")
    client = made.client(kind=socket.SOCK_DGRAM)
    exchange(client, server)
    rule = next(rule for rule in made.rules() if "default/web" in rule and "REDIRECT" in rule)
    made.daemon.stop()
    with made.cluster["node1"].netns.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("0.0.0.0", int(rule.split()[-1])))
        made.daemon.start()
        lab.wait_for(lambda: rule not in made.rules(), "another port is in the rules", PATIENCE_S)
        made.wait()
        exchange(client, server)


LEFT = {"userspace": "KUBE-PORTALS", "iptables": "KUBE-SERVICES", "nftables": "kube-proxy {"}


def test_a_switch_of_modes_leaves_nothing_and_serves(world, variant):  # noqa: F811
    made = world()
    spec = {"type": "NodePort"}
    ports = [objects.port(80, "TCP", "tcp", NODE_PORT), objects.port(80, "UDP", "udp", NODE_PORT)]
    made.manifests.put(
        objects.service("web", [VIP[4], VIP[6]], ports, **spec),
        *(objects.endpoint_slice("web", [made.cluster.endpoint("marker", family)],
                                 [objects.port(PORT, "TCP", "tcp"), objects.port(PORT, "UDP", "udp")], suffix=f"v{family}") for family in (4, 6)))
    made.wait()
    client = made.client(kind=socket.SOCK_DGRAM)  # whose entry in the connection tracking outlives each mode
    client.send(b"there?")
    assert b"marker" in client.recv(1000)
    for name in ("iptables", "userspace", "nftables", "userspace"):
        made.daemon.close()
        made.mode = lab.Mode(name, variant)
        made.daemon = lab.Daemon(made.cluster, "node1", boxes.BINARY, made.manifests, made.mode)
        made.wait()
        lab.wait_for(lambda: not left_over(made), f"what other modes than {name} have left goes: {made.daemon.log_text()[-2000:]}")  # noqa: B023
        client.send(b"still there?")
        assert b"marker" in client.recv(1000), name
        for family in (4, 6):
            for member, address, port in (("client1", VIP[family], 80), ("node1", VIP[family], 80),
                                          ("ext1", made.cluster.address("node1", family), NODE_PORT)):
                for proto in ("tcp", "udp"):
                    assert made.cluster.request(member, proto, address, port, timeout=PATIENCE_S).pod == "marker", (name, member, proto, address)


def left_over(world):  # noqa: F811
    text = world.mode.run(world.cluster, "node1", ["nft", "list", "tables"]).replace("kube-proxy\n", "kube-proxy {\n")
    text += "\n".join(world.rules())
    return [mode for mode, sign in LEFT.items() if mode != world.mode.name and sign in text]
