"""Mode nftables and mode iptables go through the same random history, and at every stage of it packets meet the same fates."""

import dataclasses
import itertools
import random

import fates
import history
import node
import proxies
import pytest
import sandbox
import world

CHANGES_AT_ONCE = 3
PACKETS = 8_000  # at every stage, to each node
TROUBLE = (3, 7)  # of ten stages: before these the proxies are killed, or somebody else writes into their tables
# Both modes serve node ports on the same addresses only if told so.
CONFIG = {"nodePortAddresses": ["172.31.0.0/24", "fd00:31::/64"]}


def world_of(objects):
    return world.World([proxies.node_object(), *objects], proxies.CLUSTER_CIDRS)


def comparable(one):
    """Is the fate of these packets meant to be the same in both modes? Why not:

    - an undefined port of a cluster IP is refused in mode nftables, and passed on in mode iptables;
    - a node port without endpoints is refused on all addresses of the node by the rules of mode iptables; where node ports are not
      served, mode nftables leaves that to the node;
    - an endpoint of another node that reaches itself through this one is masqueraded in mode iptables only.
    """
    to, client = one.target, one.client
    beside_a_cluster_ip = not to.service and "cluster IP" in to.name
    other_node_port = "node port" in to.name and to.address not in (node.IPV4, node.IPV6)
    remote_endpoint = client.name.startswith("the endpoint") and client.place == node.ETH0
    return not (beside_a_cluster_ip or other_node_port or remote_endpoint)


def told_apart(result):
    """Where there is no endpoint, the modes look at a packet in another order:

    - a load balancer refuses everybody in mode iptables; in mode nftables its source ranges are looked at before;
    - an external address refuses packets that come in or pass in mode iptables; in mode nftables also those of the node itself.
    """
    one, (iptables, nftables) = result
    if None not in nftables.by_endpoint or "cluster IP" in one.target.name:
        return False
    if iptables.by_endpoint.keys() == {None}:
        return one.target.guarded and str(nftables).strip() == "silence"
    untouched = iptables.by_endpoint.keys() == {(one.target.address, one.target.port)}
    return one.client.place == node.NODE and untouched


def choose(made, changed, chance, spare):
    """As many shots as the budget allows, those at Services that have just changed first."""
    candidates = [one for one in fates.shots(made) if comparable(one)]
    chance.shuffle(candidates)
    candidates.sort(key=lambda one: one.target.service.partition(":")[0] not in changed)
    chosen, packets = [], 0
    for one in candidates:
        packets += one.count
        if packets > PACKETS:
            break
        chosen.append(with_new_clients(one, spare))
    return chosen


def with_new_clients(one, spare):
    """With session affinity, mode iptables remembers a client by Service: it leads it from one front end to the endpoint of another."""
    if not one.target.sticky or len(one.client.sources) == 1:
        return one
    first = next(spare) * world.SOURCES
    return dataclasses.replace(one, client=one.client.others(first, world.SOURCES))


@pytest.fixture
def both(request):
    with proxies.Proxies(("iptables", "nftables"), world_of([]).make_node, sandbox.BINARY, CONFIG,
                         variant=request.config.getoption("--variant")) as made:
        yield made


def test_the_modes_agree_at_every_stage_of_a_random_history(both, request, seed):
    told, sender, chance = history.History(seed), fates.Sender(), random.Random(seed)
    log, spare = [], itertools.count()
    for round in range(request.config.getoption("--steps") // CHANGES_AT_ONCE):
        changes = [told.step() for _ in range(CHANGES_AT_ONCE)] if round else []
        log.append(", ".join(f"{name} {what}" for name, what in changes))
        if round % 10 == TROUBLE[0]:
            both.kill_and_start()
        elif round % 10 == TROUBLE[1]:
            both.meddle()
        both.hold(told.objects())
        shots = choose(world_of(told.objects()), {f"default/{name}" for name, _ in changes}, chance, spare)
        results = sender.send(list(both.nodes.values()), shots)
        different = fates.differences([one for one in results if not told_apart(one)], whole=False)
        assert different == "", f"--seed={seed}, stage {round}: {log[-3:]}\n{different}"
