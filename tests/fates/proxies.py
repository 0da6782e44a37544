"""Nodes that run one mode each, for the same objects."""

import contextlib
import itertools
import pathlib
import re
import tempfile

import lab
import lab.client
import node
from lab import objects

# Wide, so that there are clients enough whom no node with session affinity remembers.
CLUSTER_CIDRS = ("10.128.0.0/9", "fd00:244::/32")
POD_CIDRS = ("10.128.0.0/10", "fd00:244:1::/64")
_MARKED = {4: "10.128.0.2", 6: "fd00:244:1::2"}
_PORTS = itertools.cycle(range(60_000, 65_000))


class Proxies:
    """Makes a node for each of the modes and starts the mode there. A lab.Cluster to lab.Daemon and lab.Marker, as far as they
    need one; its nodes are called by their modes."""

    dual_stack = True

    def __init__(self, modes, make_node, binary, config=None, made=(), variant="nft"):
        self._closing = contextlib.ExitStack()
        self._numbers = itertools.count(1 << 31)
        try:
            self.state = pathlib.Path(self._closing.enter_context(tempfile.TemporaryDirectory(prefix="kpf-")))
            self.nodes = {mode: self._closing.enter_context(make_node()) for mode in modes}
            self.manifests = lab.Manifests(self.state / "manifests")
            self.manifests.put(*(made or [node_object()]))
            self._marker = lab.Marker(self, self.manifests, "marked", 8080)
            config = {"hostnameOverride": "node1", "clusterCIDR": ",".join(CLUSTER_CIDRS), **(config or {})}
            self.daemons = [lab.Daemon(self, mode, binary, self.manifests, lab.Mode(mode, variant), config) for mode in modes]
        except BaseException:
            self._closing.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._closing.close()

    def syncs(self, mode):
        """How often the mode has written its rules, in the family in which that happened less often."""
        text = lab.client.page(self.nodes[mode].ns, 10249, "/metrics")
        counts = re.findall(r"^kubeproxy_sync_proxy_rules_duration_seconds_count\{.*\} (\d+)$", text, re.M)
        return min(map(int, counts)) if len(counts) == 2 else 0

    def wait_first_sync(self):
        for daemon in self.daemons:
            lab.wait_for(lambda daemon=daemon: self._synced(daemon), f"{daemon.node} has rules; its log: {daemon.log_text()[-2000:]}")

    def _synced(self, daemon):
        if not daemon.running():
            raise lab.NotInTime(f"kube-proxy has ended; its log: {daemon.log_text()[-2000:]}")
        with contextlib.suppress(OSError):
            return self.syncs(daemon.node) > 0
        return False

    def hold(self, made):
        """The cluster has exactly these objects, and all nodes have rules for them."""
        self.manifests.replace([node_object(), *made, *self._marker.objects()])
        self._marker.wait(list(self.nodes), daemons=self.daemons)

    def meddle(self):
        """Somebody adds to the tables of mode nftables what does no harm; the proxy must write them anew."""
        for family, address in (("ip", "192.0.2.250"), ("ip6", "2001:db8:2::250")):
            done = self.nodes["nftables"].run("nft", f"add element {family} kube-proxy cluster-ips {{ {address} }}")
            if done.returncode != 0:
                raise RuntimeError(done.stderr)

    def kill_and_start(self):
        for daemon in self.daemons:
            daemon.kill()
            daemon.start()

    # What the laboratory asks of a cluster

    def adopt(self, daemon):
        self._closing.callback(daemon.close)

    def command(self, mode, argv):
        folder = self.state / f"run-{mode}"
        folder.mkdir(exist_ok=True)
        own_run = ["sh", "-c", 'mount --bind "$0" /run && exec "$@"', folder]
        return ["ip", "netns", "exec", self.nodes[mode].ns.name, *map(str, (*own_run, *argv))]

    def endpoint(self, _name, family):
        return objects.endpoint(_MARKED[family], node="node1")

    def request(self, mode, proto, address, port, **_):
        own = node.IPV6 if ":" in address else node.IPV4
        probe = node.Probe(next(self._numbers), node.NODE, proto, own, next(_PORTS), address, port)
        outcome, = self.nodes[mode].send([probe])
        return lab.Result("answered" if outcome.endpoint and outcome.endpoint[0] in _MARKED.values() else "timeout")


def node_object():
    return objects.node("node1", [node.IPV4, node.IPV6], list(POD_CIDRS), "zone-a")
