"""In every recording, a packet meets the fate that the recorded rules of the real kube-proxy give it."""

import fates
import proxies
import pytest
import sandbox
import world
import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def recorded(recording):
    return sandbox.ROOT / "tests" / "recordings" / recording / "nftables.txt"


def config_of(recording):
    return yaml.safe_load(sandbox.config_of(recording))


def objects_of(recording):
    return [one for one in yaml.load_all(sandbox.objects_of(recording).read_text(), LOADER) if one]


def world_of(recording):
    return world.World(objects_of(recording), config_of(recording).get("clusterCIDR", "").split(","))


def node_maker(recording):
    """Makes nodes that differ in nothing. The device towards the pods has the name that the recorded configuration expects."""
    device = config_of(recording).get("detectLocal", {}).get("bridgeInterface", "veth0")
    made = world_of(recording)
    return lambda: made.make_node(device)


def load(made, rules):
    done = made.run("nft", "-f", "-", input=rules)
    assert done.returncode == 0, done.stderr


def has_reached(recording, one):
    """The real one may hear of ServiceCIDRs after its first sync; it writes their rule with its next full one, an hour later."""
    return "free address" not in one.target.name or "unallocated ClusterIPs" in recorded(recording).read_text()


@pytest.mark.parametrize("recording", sandbox.RECORDINGS)
def test_packets_meet_the_recorded_fate(recording):
    make = node_maker(recording)
    ours = proxies.Proxies(("nftables",), make, sandbox.BINARY, config_of(recording), objects_of(recording))
    with ours as running, make() as theirs:
        load(theirs, recorded(recording).read_text())
        running.wait_first_sync()
        shots = [one for one in fates.shots(world_of(recording)) if has_reached(recording, one)]
        results = fates.Sender().send([theirs, running.nodes["nftables"]], shots)
    assert fates.differences(results) == ""


@pytest.fixture
def twins(request):
    """Two nodes without rules, for the recording that a test is about."""
    make = node_maker(request.getfixturevalue("recording"))
    with make() as first, make() as second:
        yield first, second


ALTERATIONS = [
    ("external-traffic-local", "10.244.1.2 . 8080 }", "10.244.2.3 . 8080 }"),  # another endpoint
    ("seed-three-types", "masquerade fully-random", "accept"),
    ("load-balancer-source-ranges", "203.0.113.0/25", "203.0.113.128/25"),
    ("no-endpoints", "reject", "drop"),
    ("session-affinity", "{ ip saddr }", "{ ip daddr }"),
    ("nodeport-addresses", "{ 172.31.0.11 }", "{ 192.168.77.1 }"),
    ("udp-sctp", "sctp . 9999", "sctp . 9998"),
    ("dual-stack", "fd00:244:2::3", "fd00:244:2::4"),
]


@pytest.mark.parametrize(("recording", "old", "new"), ALTERATIONS)
def test_altered_rules_are_noticed(twins, recording, old, new):
    """The comparison itself must be able to fail."""
    rules = recorded(recording).read_text()
    assert old in rules
    altered = rules.replace(old, new)
    for made, text in zip(twins, (rules, altered), strict=True):
        load(made, text)
    results = fates.Sender().send(twins, fates.shots(world_of(recording)))
    assert fates.differences(results) != ""


@pytest.mark.parametrize("recording", ["session-affinity", "external-traffic-local", "dual-stack", "large-cluster"])
def test_equal_rules_are_equal(twins, recording):
    for made in twins:
        load(made, recorded(recording).read_text())
    results = fates.Sender().send(twins, fates.shots(world_of(recording)))
    assert fates.differences(results) == ""


def test_there_are_28_recordings():
    assert len([one for one in sandbox.RECORDINGS if recorded(one).exists()]) == 28
