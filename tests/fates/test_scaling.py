"""A Service is scaled up and down without a pause while packets for it come without a pause: none of them is refused or lost.

Every endpoint answers, also after it has left, as pods do that are given time to end. There is always one that is ready, so
whatever packet meets a moment without an answer has met a gap in the rules.
"""

import collections
import itertools
import random
import threading

import node
import proxies
import pytest
import sandbox
import world
from lab import objects

ENDPOINTS = 12
LOCAL = ENDPOINTS // 2  # so many of them are on the node
CLIENTS = 25  # of each kind, at each front end
SYNCS = 60  # so many must happen under the load
PAUSE_S = 0.005  # between two changes
LEAST_PACKETS, MOST_PACKETS = 50_000, 2_000_000
PORT, NODE_PORT = 80, 30080
FRONT_ENDS = {
    4: [("10.96.1.1", PORT), ("203.0.113.1", PORT), ("192.0.2.1", PORT), (node.IPV4, NODE_PORT)],
    6: [("fd00:10:96::1", PORT), ("2001:db8:113::1", PORT), ("2001:db8:2::1", PORT), (node.IPV6, NODE_PORT)],
}


def address(which, family):
    local = which < LOCAL
    return f"10.{128 if local else 192}.0.{which + 10}" if family == 4 else f"fd00:244:{1 if local else 2}::{which + 10}"


KNOWN = {address(which, family) for which in range(ENDPOINTS) for family in (4, 6)}


def service(policy, sticky):
    spec = {"externalIPs": ["203.0.113.1", "2001:db8:113::1"], "externalTrafficPolicy": policy,
            "load_balancer_ips": ["192.0.2.1", "2001:db8:2::1"]}
    if sticky:
        spec |= {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}
    ports = [objects.port(PORT, proto, proto.lower(), NODE_PORT, 8080) for proto in ("TCP", "UDP")]
    return objects.service("web", ["10.96.1.1", "fd00:10:96::1"], ports, "LoadBalancer", **spec)


def slices(chosen):
    ports = [objects.port(8080, proto, proto.lower()) for proto in ("TCP", "UDP")]
    return [objects.endpoint_slice(
        "web", [objects.endpoint(address(which, family), node="node1" if which < LOCAL else "node2") for which in chosen],
        ports, f"v{family}") for family in (4, 6)]


class Scaler:
    """Changes the endpoints, as quickly as the proxy follows, from its start to its stop."""

    def __init__(self, manifests, seed, keep):
        self._manifests = manifests
        self._random = random.Random(seed)
        self._keep = keep  # these never leave
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._end.set()
        self._thread.join()

    def _run(self):
        while not self._end.wait(PAUSE_S):
            count = self._random.choice([1, 1, 2, 3, 6, 11, ENDPOINTS])
            others = [which for which in range(ENDPOINTS) if which not in self._keep]
            chosen = {*self._keep, *self._random.sample(others, max(0, count - len(self._keep)))}
            self._manifests.put(*slices(sorted(chosen) if chosen else [self._random.choice(others)]))


class Load:
    """Packets from pods, the node and outside to every front end, TCP and UDP, by the same clients again and again."""

    def __init__(self):
        made = world.World([proxies.node_object()], proxies.CLUSTER_CIDRS)
        self._ways = []
        for family, front_ends in FRONT_ENDS.items():
            chosen = {node.PODS: "a pod", node.ETH0: "an outsider", node.NODE: "the node"}
            clients = [one for one in made.clients(family) if one.name == chosen[one.place]]
            for client, proto, (number, (to, port)) in itertools.product(clients, ("tcp", "udp"), enumerate(front_ends)):
                # In mode iptables a client is remembered by Service: it would be led from one front end to the endpoint of another.
                own = client.sources if len(client.sources) == 1 else client.sources[number * CLIENTS:][:CLIENTS]
                self._ways += [(client.place, proto, source, to, port) for source in own]
        self._numbers = itertools.count(1)

    def round(self):
        """One packet of every client to every front end, each from a port of its own; UDP also from one port that it keeps."""
        probes = []
        for place, proto, source, to, port in self._ways:
            number = next(self._numbers)
            own = 20_000 + number // len(self._ways) % 40_000
            probes.append(node.Probe(number, place, proto, source, own, to, port))
            if proto == "udp":
                probes.append(node.Probe(next(self._numbers), place, proto, source, 19_999, to, port))
        return probes


def failures(outcomes):
    return collections.Counter(f"{one.probe.proto} from {one.probe.place} to {one.probe.destination}:{one.probe.port}: {one}"
                               for one in outcomes if not fine(one))


def fine(outcome):
    if not outcome.endpoint or outcome.endpoint[0] not in KNOWN:
        return False
    if outcome.probe.proto == "tcp":
        return outcome.back == ["answer"]
    # A UDP connection to an endpoint that leaves is forgotten, maybe before the answer, which then has the endpoint's own address.
    return len(outcome.back) == 1 and outcome.back[0].startswith("answer")


def moved(outcomes, homes, stayed):
    """Clients that left an endpoint which has been there all the time."""
    found = []
    for one in outcomes:
        probe = one.probe
        client = (probe.proto, probe.source, probe.destination, probe.port, probe.source_port == 19_999)
        home = homes.get(client)
        if home in stayed and one.endpoint and one.endpoint[0] != home:
            found.append(f"{client}: from {home} to {one.endpoint[0]}")
        homes[client] = one.endpoint and one.endpoint[0]
    return found


@pytest.fixture
def running(mode):
    empty = world.World([proxies.node_object()], proxies.CLUSTER_CIDRS)
    with proxies.Proxies((mode,), empty.make_node, sandbox.BINARY) as made:
        yield made


@pytest.mark.parametrize("sticky", [False, True], ids=["loose", "sticky"])
@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_no_packet_fails_while_its_service_is_scaled(running, mode, policy, sticky, seed):
    # A sticky client is watched at endpoints that stay; policy Local needs one on the node.
    keep = {0, LOCAL} if sticky else {0} if policy == "Local" else set()
    # Mode iptables remembers a hundred clients of an endpoint, fewer than there are here.
    watched = keep if sticky and mode != "iptables" else ()
    stayed = {address(which, family) for which in watched for family in (4, 6)}
    running.hold([service(policy, sticky), *slices([0, LOCAL])])
    load, failed, sent, homes = Load(), collections.Counter(), 0, {}
    before = running.syncs(mode)
    scaler = Scaler(running.manifests, seed, keep)
    try:
        while (running.syncs(mode) < before + SYNCS or sent < LEAST_PACKETS) and sent < MOST_PACKETS and not failed:
            outcomes = running.nodes[mode].send(load.round())
            sent += len(outcomes)
            failed += failures(outcomes)
            failed += collections.Counter(moved(outcomes, homes, stayed))
    finally:
        scaler.stop()
    assert not failed, f"of {sent} packets, in {running.syncs(mode) - before} syncs: {failed.most_common(10)}"
    assert running.syncs(mode) >= before + SYNCS, f"only {running.syncs(mode) - before} syncs under {sent} packets"


@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_a_service_returns_to_every_size_it_has_had(running, mode, policy):
    """Whatever the proxy keeps for a number of endpoints is whole when it is needed again, also after the tables were written anew."""
    sizes, load = [*range(1, ENDPOINTS + 1), 3, 1], Load()
    for repaired in (False, True):
        if repaired and mode == "nftables":
            running.meddle()
        if repaired:
            running.kill_and_start()
        for size in sizes:
            running.hold([service(policy, sticky=False), *slices(range(size))])
            failed = failures(running.nodes[mode].send(load.round()))
            assert not failed, f"{size} endpoints: {failed.most_common(5)}"
