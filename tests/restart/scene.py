"""A node with a proxy, and pods behind a Service."""

import json
import os
import re

import lab
import sandbox
from lab import conntrack, nftables, objects
from webload import PODS, SERVING, web, web_flows, web_slices

MARKER_PORT = 7000
PROTOCOLS = {"tcp": 6, "udp": 17}
SYNCED = '"Synced rules"'


class Xtables:
    """The rules of mode iptables, in the kernel of the node."""

    def __init__(self, scene):
        self._scene = scene

    def look(self):
        """What untouched() compares with."""
        return self._rules(), self._packets()

    def untouched(self, before):
        """Nothing was written since, not even what was there already."""
        rules, packets = before
        return self._rules() == rules and all(after >= then for then, after in zip(packets, self._packets(), strict=True))

    def differences(self):
        """How the rules differ from those that a single apply makes in an empty kernel."""
        with sandbox.sandbox(self._scene.mode.variant) as fresh:
            done = fresh.proxy("apply", "-f", self._scene.manifests.folder, "--config", self._scene.daemon.config_file)
            assert done.returncode == 0, done.stderr
            found = []
            for family in sandbox.FAMILIES:
                expected = fresh.file(f"expected-{family}.txt", fresh.save(family))
                found.append(sandbox.same_rules(expected, self._dump(family), fresh.folder))
        return [one for one in found if one != "same"]

    def is_empty(self):
        """Nothing of this mode's is there."""
        return not any("KUBE-SERVICES" in self._dump(family) for family in sandbox.FAMILIES)

    def _dump(self, family, *options):
        return self._scene.mode.run(self._scene.cluster, "node1", [f"{sandbox.FAMILIES[family]}-save", *options])

    def _rules(self):
        """The rules of both families, byte for byte but for comments and counters."""
        return {family: [re.sub(r" \[\d+:\d+\]$", "", line) for line in self._dump(family).splitlines() if line[:1] != "#"]
                for family in sandbox.FAMILIES}

    def _packets(self):
        """How many packets each rule has seen, in the order of the rules. One that is written anew begins at zero."""
        return [int(count) for family in sandbox.FAMILIES
                for count in re.findall(r"^\[(\d+):\d+\] ", self._dump(family, "-c"), re.MULTILINE)]


class Portals(Xtables):
    """The rules of mode userspace, in the kernel of the node."""

    def differences(self):
        return told_by_diff(self._scene)

    def is_empty(self):
        return not any(re.search("KUBE-PORTALS-|KUBE-NODEPORT-", self._dump(family)) for family in sandbox.FAMILIES)


class Nftables:
    """The tables of mode nftables, in the kernel of the node."""

    def __init__(self, scene):
        self._scene = scene

    def look(self):
        return nftables.generation(self._scene.cluster["node1"].netns), [self._list(family) for family in ("ip", "ip6")]

    def untouched(self, before):
        return self.look() == before

    def differences(self):
        return told_by_diff(self._scene)

    def is_empty(self):
        return " kube-proxy\n" not in self._run("list", "tables")

    def _list(self, family):
        """With the numbers that the kernel has given to everything."""
        return self._run("-a", "list", "table", family, "kube-proxy")

    def _run(self, *argv):
        return self._scene.mode.run(self._scene.cluster, "node1", ["nft", *argv])


class Ipvs:
    """Virtual servers, sets, addresses and rules of mode ipvs, in the kernel of the node."""

    def __init__(self, scene):
        self._scene = scene

    def look(self):
        """Without counters. That nothing was written which was there already, scene.written() knows."""
        return re.sub(r"^#.*\n| \[\d+:\d+\]$", "", self._scene.mode.rules(self._scene.cluster, "node1"), flags=re.MULTILINE)

    def untouched(self, before):
        return self.look() == before

    def differences(self):
        return told_by_diff(self._scene)

    def is_empty(self):
        return not re.search(r"kube-ipvs0|KUBE-IPVS", self.look())


def told_by_diff(scene):
    """What `kube-proxy diff` says on the node."""
    argv = [sandbox.BINARY, "diff", "-f", str(scene.manifests.folder), "--config", str(scene.daemon.config_file)]
    done = scene.cluster.run("node1", argv, env={**os.environ, "PATH": scene.mode.path(scene.cluster.state)})
    return [] if done.returncode == 0 else [done.stdout + done.stderr]


KERNELS = {"iptables": Xtables, "nftables": Nftables, "ipvs": Ipvs, "userspace": Portals}


class Scene:
    """The node `node1`; the proxy runs and has synced. Everything goes with close()."""

    def __init__(self, binary, mode):
        self.mode = mode
        self.kernel = KERNELS[mode.name](self)
        self._binary = binary
        self.cluster = lab.Cluster("kpr", nodes={"node1": "zone-a"}, outsiders={"ext1": "node1"},
                                   pods=dict.fromkeys(("client1", *PODS, "web2a", "web2b"), "node1"))
        try:
            self.serve(*PODS)
            self.cluster.serve("client1", tcp=[MARKER_PORT])
            self.cluster.wait_serving()
            self.manifests = lab.Manifests(self.cluster.state / "manifests")
            self.manifests.put(*self.cluster.node_objects(), web())
            self.point_to(dict.fromkeys(PODS, {}))
            self.daemon = lab.Daemon(self.cluster, "node1", binary, self.manifests, mode)
            self.marker = lab.Marker(self.cluster, self.manifests, "client1", MARKER_PORT, mode)
            self.wait_synced()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.cluster.close()

    # The Service

    def serve(self, *pods):
        """Starts the servers of these pods, and waits until they answer."""
        for pod in pods:
            self.cluster.serve(pod, **SERVING)
        self.cluster.wait_serving()

    def point_to(self, endpoints):
        """Gives the Service these endpoints: names of pods, and their conditions."""
        self.manifests.put(*web_slices(self.cluster, endpoints))

    def wait_taken_up(self):
        """Waits until everything that was written so far is in the kernel."""
        self.marker.wait(["node1"], daemons=[self.daemon])

    # The proxy

    def start(self):
        """Starts the proxy again, and waits for its first sync."""
        self.daemon.log.unlink()
        self.daemon.start()
        self.wait_synced()

    def switch(self, mode):
        """Ends the proxy, starts it in another mode, and waits for its first sync. Returns what the old one has left."""
        left = self.kernel
        self.daemon.stop()
        self.daemon.log.unlink()
        self.mode, self.kernel = mode, KERNELS[mode.name](self)
        self.daemon = lab.Daemon(self.cluster, "node1", self._binary, self.manifests, mode)
        self.wait_synced()
        return left

    def wait_synced(self, seconds=120.0):
        """Waits until both families of the running proxy have synced."""
        lab.wait_for(self.synced, f"both families have synced: {self.daemon.log_text()[-2000:]}", seconds)

    def synced(self):
        if not self.daemon.running():
            raise lab.NotInTime(f"kube-proxy has ended: {self.daemon.log_text()[-2000:]}")
        text = self.daemon.log_text()
        return all(re.search(f'{SYNCED} ipFamily="{family}"', text) for family in ("IPv4", "IPv6"))

    def written(self):
        """How many chains, rules, elements, servers and addresses the running proxy has written since it started."""
        lines = [line for line in self.daemon.log_text().splitlines() if SYNCED in line]
        return sum(int(count) for line in lines for count in re.findall(r" (?:chains|rules|elements|servers|addresses)=(\d+)", line))

    def filler(self, count, turn=0):
        """Makes the folder hold so many other Services too; each turn gives all of them other endpoints."""
        made = []
        for number in range(count):
            name = f"x-{number}"  # behind web and the marker: the first rules of the shared chains are looked at often
            address = f"10.{97 + turn % 2}.{number // 250}.{number % 250 + 2}"
            made += [objects.service(name, address, [objects.port(80)]), objects.endpoint_slice(
                name, [objects.endpoint(f"10.244.{100 + turn % 100}.{number % 250 + 2}", "node1")], [objects.port(8080)])]
        path = self.manifests.folder / ".filler.tmp"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": made}), encoding="utf-8")
        path.rename(self.manifests.folder / "filler.json")

    # The kernel

    def stream_entries(self):
        """The connection tracking entries of the streams, with their ids."""
        wanted = {(PROTOCOLS[flow.proto], flow.address, flow.port) for flow in web_flows(self.cluster) if flow.kind == "stream"}
        return {key: entry for key, entry in conntrack.entries(self.cluster["node1"].netns).items()
                if (key[0], *key[3:]) in wanted}
