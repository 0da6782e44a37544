"""Node ports on 127.0.0.1, where somebody has asked for them: the node's own processes get there, and nobody else does.

That 127.0.0.1 becomes reachable through a rewritten address must not open what listens there to the network (CVE-2020-8558).
"""

import itertools

import node
import proxies
import pytest
import sandbox
import world
from lab import objects

NODE_PORT = 30080
LOCALHOST = "127.0.0.1"
OTHER_PORT = 10249  # where something listens that is for the node only
CONFIG = {"nodePortAddresses": ["127.0.0.0/8", "172.31.0.0/24"]}


@pytest.fixture(scope="module")
def sent(request):
    """A function: what becomes of a packet from a place and a source to an address and a port."""
    ports = [objects.port(80, proto, proto.lower(), NODE_PORT, 8080) for proto in ("TCP", "UDP", "SCTP")]
    empty = [objects.port(80, proto, proto.lower(), NODE_PORT + 1, 8080) for proto in ("TCP", "UDP")]
    endpoints = [objects.endpoint("10.128.0.10", node="node1"), objects.endpoint("10.192.0.10", node="node2")]
    targets = [objects.port(8080, proto, proto.lower()) for proto in ("TCP", "UDP", "SCTP")]
    made = [objects.service("web", "10.96.1.1", ports, "NodePort"), objects.endpoint_slice("web", endpoints, targets),
            objects.service("none", "10.96.1.2", empty, "NodePort")]
    nodes = world.World([proxies.node_object()], proxies.CLUSTER_CIDRS).make_node
    mode, numbers = request.config.getoption("--mode"), itertools.count(1)
    with proxies.Proxies((mode,), nodes, sandbox.BINARY, CONFIG) as running:
        running.hold(made)

        def send(place, proto, source, destination, port, count=1):
            probes = [node.Probe(number, place, proto, source, 20_000 + number, destination, port)
                      for number in itertools.islice(numbers, count)]
            return running.nodes[mode].send(probes)

        yield send


@pytest.mark.parametrize("proto", ["tcp", "udp", "sctp"])
def test_the_node_reaches_every_endpoint(sent, proto):
    outcomes = sent(node.NODE, proto, LOCALHOST, LOCALHOST, NODE_PORT, count=60)
    assert {one.endpoint for one in outcomes} == {("10.128.0.10", 8080), ("10.192.0.10", 8080)}
    assert {tuple(one.back) for one in outcomes} == {("answer",)}
    assert all(not one.arrival[1].source.startswith("127.") for one in outcomes)


@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_without_endpoints_it_is_refused(sent, proto):
    outcome, = sent(node.NODE, proto, LOCALHOST, LOCALHOST, NODE_PORT + 1)
    assert set(outcome.back) & {"port unreachable", "reset"}


@pytest.mark.parametrize("proto", ["tcp", "udp", "sctp"])
@pytest.mark.parametrize("port", [NODE_PORT, NODE_PORT + 1, OTHER_PORT])
@pytest.mark.parametrize(("place", "source"), [
    (node.ETH0, "11.0.0.9"), (node.ETH0, "172.31.0.100"), (node.PODS, "10.128.0.99"),
    (node.ETH0, LOCALHOST), (node.PODS, LOCALHOST), (node.ETH0, node.IPV4)])
@pytest.mark.parametrize("destination", [LOCALHOST, "127.0.0.2"])
def test_nobody_else_reaches_localhost(sent, mode, place, source, destination, port, proto):
    if mode == "iptables" and port == NODE_PORT and destination == LOCALHOST != source:
        pytest.skip("in mode iptables this reaches the Service, as with the original; not the node")
    outcome, = sent(place, proto, source, destination, port)
    assert str(outcome) == "silence"


def test_node_ports_work_on_the_addresses_that_are_listed(sent):
    for place, source in ((node.ETH0, "11.0.0.9"), (node.PODS, "10.128.0.99"), (node.NODE, node.IPV4)):
        outcome, = sent(place, "tcp", source, node.IPV4, NODE_PORT)
        assert outcome.back == ["answer"]
    outcome, = sent(node.PODS, "tcp", "10.128.0.99", node.OTHER_IPV4, NODE_PORT)
    assert outcome.arrival[0] == node.NODE
