"""The laboratory itself: with no proxy in it, packets go where they should and fates are told apart."""

import lab
import lab.netns
import pytest

PORT = 8080


@pytest.fixture(scope="module")
def cluster():
    with lab.Cluster("kpl") as made:
        for name in ("web1a", "web2a", "node2"):
            made.serve(name, tcp=[PORT], udp=[PORT])
        made.wait_serving()
        yield made


@pytest.fixture(scope="module")
def mode(request):
    return lab.Mode("iptables", request.config.option.variant)


@pytest.mark.parametrize("proto", ["tcp", "udp"])
@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("server", ["web1a", "web2a", "node2"])
@pytest.mark.parametrize("client", ["client1", "node1", "ext1"])
def test_everybody_reaches_everybody_with_its_own_address(cluster, client, server, family, proto):
    result = cluster.request(client, proto, cluster.address(server, family), PORT)
    assert (result.kind, result.pod) == ("answered", server)
    assert result.source in cluster.addresses(client)


@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_a_closed_port_is_refused(cluster, proto):
    assert cluster.request("client1", proto, cluster.address("web1a"), 1).kind == "refused"


@pytest.mark.parametrize("proto", ["tcp", "udp"])
@pytest.mark.parametrize("address", ["10.96.1.1", "fd00:10:96::1"])
def test_an_address_of_nobody_is_unreachable(cluster, proto, address):
    for client in ("client1", "node1", "ext1"):
        assert cluster.request(client, proto, address, 80).kind == "unreachable"


@pytest.mark.parametrize("proto", ["tcp", "udp"])
@pytest.mark.parametrize(("target", "kind"), [("DROP", "timeout"), ("REJECT", "refused")])
@pytest.mark.parametrize(("client", "chain"), [("client1", "FORWARD"), ("node1", "OUTPUT")])
def test_dropped_and_rejected_are_told_apart(cluster, mode, proto, target, kind, client, chain):
    rule = [chain, "-d", "10.96.1.1", "-p", proto, "-j", target]
    mode.run(cluster, "node1", ["iptables", "-w", "5", "-A", *rule])
    try:
        assert cluster.request(client, proto, "10.96.1.1", 80, timeout=0.3).kind == kind
    finally:
        mode.run(cluster, "node1", ["iptables", "-w", "5", "-D", *rule])


def test_a_rewritten_destination_is_followed(cluster, mode):
    mode.add_host_port(cluster, "node1", "tcp", 9000, cluster.address("web1a"), PORT)
    try:
        result = cluster.request("ext1", "tcp", cluster.address("node1"), 9000)
        assert (result.pod, result.source) == ("web1a", cluster.address("ext1"))
    finally:
        mode.remove_host_port(cluster, "node1")
    assert cluster.request("ext1", "tcp", cluster.address("node1"), 9000).kind == "refused"


def test_large_payloads_arrive_whole(cluster):
    assert cluster.request("client1", "udp", cluster.address("web2a"), PORT, payload=b"x" * 30000).length == 30000
    assert cluster.request("client1", "tcp", cluster.address("web2a"), PORT, payload=b"x" * 1000000).length == 1000000


def test_nothing_is_left_behind():
    with lab.Cluster("kpx") as short:
        state = short.state
        server = short.serve("web1a", tcp=[PORT])
        short.wait_serving()
        names = {member.netns.name for member in short.members.values()}
    assert server.poll() is not None
    assert not state.exists()
    left = lab.netns.ip("netns", "list")
    assert not [name for name in names if name in left]
