"""The original gives way to ours, and the other way round, under traffic."""

import dataclasses
import re

import controlplane
import lab
import pytest
import sandbox
from node import METRICS_PORT, SYNCS
from webload import PODS, SERVING, undisturbed, web, web_flows, web_slices


class Place:
    """A node with pods behind a Service, and one proxy at a time."""

    def __init__(self, plane):
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


@pytest.mark.parametrize(("first", "then"), [(("original", "nftables"), ("ours", "iptables")),
                                             (("ours", "iptables"), ("original", "nftables"))])
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
