"""The cluster of examples/bank, running: its pods, and the proxy on both nodes."""

import contextlib
import os
import pathlib
import shutil
import signal

import lab

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("KUBE_PROXY", ROOT / "build" / "kube-proxy"))
EXAMPLES = ROOT / "examples"
PREFIX = "kpdemo"
NODES = {"node1": "zone-a", "node2": "zone-b"}

# In this order they get the addresses that examples/bank has: 10.244.1.2, .3 and so on.
PODS = {
    "client1": "node1", "customer-1": "node1", "summary-1": "node1", "coredns-1": "node1", "traefik-1": "node1",
    "client2": "node2", "summary-2": "node2", "database-1": "node2", "coredns-2": "node2", "traefik-2": "node2",
    "summary-3": "node2",
}
SERVES = {
    "customer-1": {"tcp": [80]}, "summary-1": {"tcp": [80]}, "summary-2": {"tcp": [80]}, "summary-3": {"tcp": [80]},
    "database-1": {"tcp": [2379]}, "traefik-1": {"tcp": [8000, 8443]}, "traefik-2": {"tcp": [8000, 8443]},
    "coredns-1": {"tcp": [53, 9153], "udp": [53]}, "coredns-2": {"tcp": [53, 9153], "udp": [53]},
}


@contextlib.contextmanager
def shielded():
    """Holds Ctrl-C back for the length of the with block; processes started inside never see it.

    A Ctrl-C goes to the whole group of processes. Only the demo itself shall act on it, and end the others.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Manifests(lab.Folder):
    """The folder that the proxies watch: a copy of examples/bank, so that it can be played with."""

    def __init__(self, folder):
        super().__init__(folder)
        for file in sorted((EXAMPLES / "bank").glob("*.yaml")):
            self.add(file)

    def add(self, file):
        """Copies a file into the folder; it appears there in one step."""
        temporary = self.folder / f".{file.name}.tmp"
        shutil.copyfile(file, temporary)
        temporary.rename(self.folder / file.name)

    def remove(self, name):
        (self.folder / name).unlink()


class Bank:
    """The cluster is built by the constructor, and removed by close() or at the end of a with block."""

    def __init__(self):
        self.mode = lab.Mode("iptables", "nft")
        self.daemons = {}
        self.cluster = lab.Cluster(PREFIX, NODES, PODS, dual_stack=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with shielded():
            self.cluster.close()

    def open_pods(self):
        with shielded():
            for pod, ports in SERVES.items():
                self.cluster.serve(pod, **ports)
        self.cluster.wait_serving()

    def reopen(self, pod):
        with shielded():
            self.cluster.serve(pod, **SERVES[pod])
        address, port = self.cluster.address(pod), SERVES[pod]["tcp"][0]
        lab.wait_for(lambda: self.cluster.request(pod, "tcp", address, port).kind == "answered", f"{pod} is open")

    def start_proxies(self):
        self.manifests = Manifests(self.cluster.state / "manifests")
        with shielded():
            for node in NODES:
                self.daemons[node] = lab.Daemon(self.cluster, node, BINARY, self.manifests, self.mode)

    def ended_proxy(self):
        """A daemon that has ended by itself, or None."""
        return next((d for d in self.daemons.values() if not d.running()), None)

    def rules(self, node):
        """The rules in the kernel of a node, IPv4, as iptables-save prints them."""
        return self.mode.run(self.cluster, node, ["iptables-save"])

    def namespace(self, name):
        return self.cluster[name].netns.name
