"""Sends the same packets to two nodes and compares what becomes of them."""

import collections
import dataclasses
import itertools
import math

import node
import world

# A Service with more endpoints than this is tried out by one client only; the others send a few packets.
MANY_ENDPOINTS = 16
FEW = 24
EACH_SOURCE = 3  # packets from one address, to see whether they go to one endpoint
_PORTS = range(20_000, 60_000)


@dataclasses.dataclass(frozen=True)
class Shot:
    """One client sends to one target, so often that every endpoint must be met if `complete`."""

    client: world.Client
    target: world.Target
    count: int
    complete: bool

    def __str__(self):
        to = self.target
        address = f"[{to.address}]" if ":" in to.address else to.address
        return f"{self.client.name} to {to.proto} {address}:{to.port} ({to.name})"

    def sources(self):
        """The source of each packet. A client with affinity is asked for several times in a row."""
        sources = self.client.sources
        if self.target.address in world.LOOPBACK.values() and self.client.place == node.NODE:
            sources = (self.target.address,)
        each = EACH_SOURCE if self.target.sticky else 1
        return [source for source in itertools.islice(itertools.cycle(sources), self.count // each) for _ in range(each)]


def shot(client, target, sampled=False):
    """`sampled`: another client has met all endpoints; a few packets tell the rest."""
    complete = not sampled
    wanted = _enough(target.endpoints) if complete else FEW
    if target.sticky:
        complete = complete and len(client.sources) >= wanted
        wanted = (wanted if complete else min(FEW, len(client.sources))) * EACH_SOURCE
    return Shot(client, target, wanted, complete)


def _enough(endpoints):
    """So many draws that one of the endpoints is left out less than once in ten million times."""
    return 3 if endpoints == 1 else math.ceil(endpoints * (math.log(endpoints) + 16))


def shots(made):
    """All that is worth trying in a world."""
    return [one for family in (4, 6) for one in _shots_of_family(made, family)]


def _shots_of_family(made, family):
    clients, ports = made.clients(family), made.service_ports(family)
    for port in ports:
        many = len(port.endpoints) > MANY_ENDPOINTS
        for target in made.targets(port):
            for number, client in enumerate([*clients, *made.endpoint_clients(port)]):
                yield shot(client, target, sampled=many and number > 0)
        yield from (shot(made.owner_of(target), target) for target in made.load_balancers(port) if target.guarded)
    beside = {target for port in ports for target in made.wrong_targets(port)}
    right = {(target.proto, target.address, target.port) for port in ports for target in made.targets(port)}
    for target in sorted(beside, key=str) + made.free_addresses(family):
        if (target.proto, target.address, target.port) not in right:
            yield from (shot(client, target) for client in clients)


@dataclasses.dataclass
class Fate:
    """What became of the packets of one shot: for each endpoint that got some (None: nobody) all that was seen."""

    by_endpoint: dict
    sticky: bool | None  # did every client stay with one endpoint; None where that cannot be told

    def __str__(self):
        lines = sorted(line for seen in self.by_endpoint.values() for line in seen)
        return "\n".join(f"    {line}" for line in [*lines, *(["each client stays with one endpoint"] if self.sticky else [])])


class Sender:
    """Sends shots to nodes; all of them get the very same packets."""

    def __init__(self):
        self._numbers = itertools.count(1)
        # A port that comes again would find the connection of before.
        self._ports = collections.defaultdict(lambda: itertools.cycle(_PORTS))

    def send(self, nodes, chosen):
        """For every shot the fates on the nodes: a list of (shot, [fate, ...])."""
        probes = [self._probes(one) for one in chosen]
        together = [probe for group in probes for probe in group]
        outcomes = [iter(one.send(together)) for one in nodes]
        return [(one, [_judge(one, list(itertools.islice(row, len(group)))) for row in outcomes])
                for one, group in zip(chosen, probes, strict=True)]

    def _probes(self, one):
        to = one.target
        return [node.Probe(next(self._numbers), one.client.place, to.proto, source,
                           next(self._ports[to.proto, source, to.address, to.port]), to.address, to.port)
                for source in one.sources()]


def _judge(one, outcomes):
    by_endpoint = collections.defaultdict(set)
    by_source = collections.defaultdict(set)
    for outcome in outcomes:
        by_endpoint[outcome.endpoint].add(str(outcome))
        by_source[outcome.probe.source].add(outcome.endpoint)
    repeated = one.target.sticky and one.target.endpoints > 1
    return Fate(dict(by_endpoint), all(len(met) == 1 for met in by_source.values()) if repeated else None)


def differences(results, whole=True):
    """The results whose two fates are not the same, as text; empty when all are. `whole`: every client has sent to every target."""
    known = collections.defaultdict(set)  # the endpoints that somebody meets at a target
    for one, (expected, _) in results:
        known[one.target] |= expected.by_endpoint.keys()
    return "\n".join(f"{one}\n  expected:\n{expected}\n  seen:\n{seen}" for one, (expected, seen) in results
                     if not _same(one, expected, seen, known[one.target] if whole else None))


def _same(one, expected, seen, known):
    if one.complete:
        return (expected.by_endpoint, expected.sticky) == (seen.by_endpoint, seen.sticky)
    # A client that stays with one endpoint of two or three meets the same one on both nodes only by chance.
    answered = {None} & expected.by_endpoint.keys() == {None} & seen.by_endpoint.keys()
    allowed = known is None or seen.by_endpoint.keys() <= known
    common = expected.by_endpoint.keys() & seen.by_endpoint.keys()
    return answered and allowed and expected.sticky == seen.sticky and all(
        expected.by_endpoint[key] == seen.by_endpoint[key] for key in common)
