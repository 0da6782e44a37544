"""The original gives way to ours, and the other way round, under traffic."""

import dataclasses
import re

import controlplane
import lab
import pytest
import sandbox
from lab import objects
from node import METRICS_PORT, SYNCS
from webload import PODS, SERVING, undisturbed, web, web_flows, web_slices


class Place:
    """A node with pods behind a Service, and one proxy at a time."""

    def __init__(self, plane):
        self._plane = plane
        self._changes = 0
        self._source = controlplane.Source(plane.kubeconfig("kube-proxy"))
        self.cluster = lab.Cluster("kpw", nodes={"node1": "zone-a"}, outsiders={"ext1": "node1"},
                                   pods=dict.fromkeys(("client1", *PODS), "node1"))
        try:
            for pod in PODS:
                self.cluster.serve(pod, **SERVING)
            self.cluster.wait_serving()
            plane.attach(self.cluster.fabric)
            plane.put(*self.cluster.node_objects(), web(), *web_slices(self.cluster, dict.fromkeys(PODS, {})))
        except BaseException:
            self.cluster.close()
            raise
        self.daemon = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()

    def start(self, binary, mode):
        """Starts a proxy, and waits until both families have synced."""
        self.daemon = lab.Daemon(self.cluster, "node1", binary, self._source, mode)
        lab.wait_for(self._synced, "both families have synced", 30)

    def _synced(self):
        if not self.daemon.running():
            raise lab.NotInTime(f"{self.daemon.name} has ended: {self.daemon.log_text()[-2000:]}")
        try:
            text = lab.client.page(self.cluster["node1"].netns, METRICS_PORT, "/metrics")
        except OSError:
            return False
        return len(re.findall(SYNCS + r'\{ip_family="\w+"\} [1-9]', text)) == 2

    def rules(self, mode):
        return {family: mode.run(self.cluster, "node1", [f"{program}-save"]) for family, program in sandbox.FAMILIES.items()}

    def packets(self, mode):
        """How many packets the rules of each single service have seen. In the chains that services share, the original
        writes them in an order of its own, which means nothing."""
        dumps = (mode.run(self.cluster, "node1", [f"{program}-save", "-c"]) for program in sandbox.FAMILIES.values())
        return {rule: int(count) for text in dumps
                for count, rule in re.findall(r"^\[(\d+):\d+\] (-A KUBE-(?:SVC|SVL|EXT|FW|SEP)-.*)$", text, re.MULTILINE)}

    def change(self):
        """Gives both families of the proxy something to sync."""
        self._changes += 1
        self._plane.put(objects.service("other", ("10.96.1.2", "fd00:10:96::1:2"), [objects.port(self._changes)]))

    def table(self, family):
        """Mode nftables: the table as people see it."""
        return lab.Mode("nftables").run(self.cluster, "node1", ["nft", "list", "table", family, "kube-proxy"])

    def chains(self):
        """The chains of both families, and what is in them."""
        return [(name, rules.split("\n")[:-1]) for family in ("ip", "ip6")
                for name, rules in re.findall(r"^\tchain (\S+) {\n(.*?)^\t}$", self.table(family), re.MULTILINE | re.DOTALL)]

    def rules_of(self, whose):
        """What is in those chains that only one of the two proxies has."""
        return [rule for name, rules in self.chains() if whose.match(name) for rule in rules]

    def compare(self, rules, mode):
        """How the rules differ from those of an earlier time."""
        found = []
        for family, text in self.rules(mode).items():
            path = self.cluster.state / f"expected-{family}.txt"
            path.write_text(rules[family], encoding="utf-8")
            found.append(sandbox.same_rules(path, text, self.cluster.state))
        return [one for one in found if one != "same"]


@pytest.fixture
def place(plane):
    with Place(plane) as made:
        yield made


@pytest.fixture
def binaries(our_binary_path):
    """Which proxy comes after which."""
    original = controlplane.built().path("kube-proxy")
    return {"original": original, "ours": our_binary_path}


@pytest.mark.parametrize("variant", ["nft", "legacy"])
def test_a_swap_in_the_same_mode_is_not_noticed(place, binaries, variant):
    mode = lab.Mode("iptables", variant)
    place.start(binaries["original"], mode)
    rules = place.rules(mode)
    with lab.Traffic(place.cluster, web_flows(place.cluster)) as traffic:
        traffic.wait_answers()
        for who, end in (("ours", "stop"), ("original", "stop"), ("ours", "kill"), ("original", "kill")):
            getattr(place.daemon, end)()
            packets = place.packets(mode)
            place.start(binaries[who], mode)
            traffic.wait_answers()
            assert place.compare(rules, mode) == []
            if who == "ours":  # the original writes everything anew
                after = place.packets(mode)
                assert [rule for rule, count in packets.items() if after[rule] < count] == [], "rules were written anew"
        undisturbed(traffic.report())


# Chains that one of the two has and the other has not: ours for a kind of front ends, the original's for a Service.
OURS = re.compile(r"(nodeport/)?(endpoints|masquerade|local)/")
ORIGINALS = re.compile(r"(service|external|endpoint)-[A-Z0-9]+-")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_swap_in_mode_nftables_is_not_noticed(place, binaries, end):
    mode = lab.Mode("nftables")
    place.start(binaries["original"], mode)
    with lab.Traffic(place.cluster, web_flows(place.cluster)) as traffic:
        traffic.wait_answers()
        for who, new, old in (("ours", OURS, ORIGINALS), ("original", ORIGINALS, OURS)) * 2:
            getattr(place.daemon, end)()
            place.start(binaries[who], mode)
            traffic.wait_answers()
            assert place.rules_of(new)
            assert place.rules_of(old) == []
            undisturbed(traffic.report())


def test_the_original_deletes_our_chains_in_mode_nftables(place, binaries):
    """It takes them for those of Services that are gone: it empties them at its first sync, and deletes them in one that comes more than
    a second after the one before."""
    mode = lab.Mode("nftables")
    place.start(binaries["ours"], mode)
    place.daemon.stop()
    place.start(binaries["original"], mode)

    def gone():
        place.change()
        return not any(OURS.match(name) for name, _ in place.chains())

    lab.wait_for(gone, "our chains go", 60, every=1.5)


def set_of(table, name):
    """What `nft` prints of one set."""
    return table.partition(f"set {name} {{")[2].partition("\t}\n")[0]


def test_ours_does_not_depend_on_what_the_original_has_left_in_mode_nftables(place, binaries):
    mode = lab.Mode("nftables")
    place.start(binaries["ours"], mode)

    def look():
        """The kernel has no order of elements."""
        sets = {family: sorted(map(str.strip, re.split(r"[,{}\n]", place.table(family).partition("\tchain ")[0]))) for family in ("ip", "ip6")}
        return sets, sorted(chain for chain in place.chains() if not ORIGINALS.match(chain[0]))

    # Syncs without waiting for ServiceCIDRs, which may come a moment later.
    lab.wait_for(lambda: "elements = " in set_of(place.table("ip"), "service-cidrs"), "the ServiceCIDRs are there")
    fresh = look()
    place.daemon.stop()
    place.start(binaries["original"], mode)
    place.daemon.stop()
    place.start(binaries["ours"], mode)
    lab.wait_for(lambda: look() == fresh, "the table is what it was")
    assert place.rules_of(ORIGINALS) == []


SWITCHES = [(("original", "nftables"), ("ours", "iptables")), (("ours", "iptables"), ("original", "nftables")),
            (("original", "iptables"), ("ours", "nftables")), (("ours", "nftables"), ("original", "iptables")),
            (("ours", "iptables"), ("ours", "nftables")), (("ours", "nftables"), ("ours", "iptables"))]


@pytest.mark.parametrize(("first", "then"), SWITCHES, ids=["-".join((*first, *then)) for first, then in SWITCHES])
def test_a_switch_of_modes_takes_a_time_that_is_told(place, binaries, first, then, capsys):
    place.start(binaries[first[0]], lab.Mode(first[1]))
    flows = [dataclasses.replace(flow, timeout=0.2) for flow in web_flows(place.cluster)]
    with lab.Traffic(place.cluster, flows) as traffic:
        traffic.wait_answers()
        place.daemon.stop()
        place.start(binaries[then[0]], lab.Mode(then[1]))
        traffic.wait_answers()
        records = traffic.report()
    with capsys.disabled():
        print(f"\n{' '.join(first)} -> {' '.join(then)}: longest time without an answer, and requests that failed")
        for one in records:
            print(f"  {one.longest_gap_s * 1000:6.0f} ms {one.failed:4d} of {one.sent:5d}  {one.name}")
