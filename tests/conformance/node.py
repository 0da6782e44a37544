"""A node called node1, as the recordings were made on it, with a proxy that gets everything from the API server."""

import re

import controlplane
import lab
import sandbox
import yaml

CONFIG = {"hostnameOverride": "node1", "clusterCIDR": "10.244.0.0/16,fd00:244::/32"}
METRICS_PORT = 10249
SYNCS = "kubeproxy_sync_proxy_rules_duration_seconds_count"
FAMILIES = {"ipv4": "IPv4", "ipv6": "IPv6"}


class Node:
    """A namespace with the addresses of recordings/README.md, behind a fabric of its own, so that several may exist.

    Nothing runs on it until start().
    """

    def __init__(self, plane, name, binary):
        self.name = name
        self.plane = plane
        self._binary = binary
        self.is_original = binary == controlplane.built().path("kube-proxy")
        self._mode = lab.Mode("iptables", "nft")
        self.cluster = lab.Cluster(f"kpc{name}", nodes={"node1": "zone-a"}, pods={}, outsiders={})
        self.netns = self.cluster["node1"].netns
        self.netns.ip("address add 192.168.77.1/24 dev lo")
        self.link = plane.attach(self.cluster.fabric)
        self.daemon = None
        self.config = CONFIG

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()

    # Its proxy

    def start(self, config=None, kubeconfig=None):
        """Starts the proxy, as the user system:kube-proxy unless a kubeconfig is given. Returns at once."""
        source = controlplane.Source(kubeconfig or self.plane.kubeconfig("kube-proxy"))
        self.config = config or CONFIG
        self.daemon = lab.Daemon(self.cluster, "node1", self._binary, source, self._mode, self.config)

    def clear(self):
        """Ends the proxy, and takes away its rules and its log."""
        if self.daemon:
            self.daemon.kill()
            self.daemon.log.unlink(missing_ok=True)
            self._mode.flush(self.cluster, "node1")
        self.daemon = None
        self.link.mend()

    def log(self):
        return self.daemon.log_text() if self.daemon else ""

    # What it has done

    def wait_synced(self, seconds=20.0):
        """Waits until both families have synced, and the kernel holds still."""
        lab.wait_for(lambda: min(self.syncs().values()) >= 1, f"{self.name}: both families have synced", seconds)
        self.wait_still()

    def wait_still(self):
        """Waits until two looks at the rules, a moment apart, show the same."""
        seen = []

        def still():
            seen.append(self.all_rules())
            return seen[-1:] == seen[-2:-1]

        lab.wait_for(still, f"{self.name}: the rules hold still", every=0.1)

    def wait_agrees(self, other, seconds=30.0):
        """Waits until the kernel here holds what the API holds: what `other`, the original, makes of it when it starts
        now. Raises AssertionError with the difference."""
        other.clear()
        other.start(self.config)
        other.wait_synced()
        self.wait_rules(other.all_rules(), seconds, "the kernel holds what the API holds")

    def wait_says(self, pattern, seconds=30.0):
        """Waits for a line of the log."""
        lab.wait_for(lambda: re.search(pattern, self.log(), re.IGNORECASE),
                     f"{self.name}: the log says \"{pattern}\"", seconds, every=0.1)

    def wait_rules(self, expected, seconds, what):
        """Waits until the rules are the expected ones ({family: text}); raises AssertionError with the difference."""
        try:
            lab.wait_for(lambda: not self.differences(expected), what, seconds, every=0.2)
        except lab.NotInTime as error:
            raise AssertionError(f"{error}\n" + "\n".join(self.differences(expected).values())) from None

    def differences(self, expected):
        """How the rules differ from the expected ones ({family: text}), for each family in which they do."""
        compared = {family: self._compare(text, family) for family, text in expected.items()}
        return {family: text for family, text in compared.items() if text != "same"}

    def _compare(self, expected, family):
        path = self.cluster.state / f"expected-{family}.txt"
        path.write_text(expected, encoding="utf-8")
        return sandbox.same_rules(path, self.rules(family), self.cluster.state)

    def all_rules(self):
        return {family: self.rules(family) for family in FAMILIES}

    def rules(self, family):
        return without_comments(self._mode.run(self.cluster, "node1", [f"{sandbox.FAMILIES[family]}-save"]))

    def syncs(self):
        """How often each family has synced, as the metrics server says."""
        text = self.metrics()
        found = dict(re.findall(SYNCS + r'\{ip_family="(\w+)"\} (\d+)', text))
        return {family: int(found.get(label, 0)) for family, label in FAMILIES.items()}

    def metrics(self):
        """What the metrics server says; nothing while it is not there."""
        if self.daemon and not self.daemon.running():
            raise lab.NotInTime(f"{self.name}: kube-proxy has ended; its log: {self.log()[-3000:]}")
        try:
            return lab.client.page(self.netns, METRICS_PORT, "/metrics")
        except OSError:
            return ""


def without_comments(text):
    """A dump without the lines that tell its time."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("#")) + "\n"


def recording(name):
    """The configuration and the objects of a recording's input."""
    text = _recorded(name, "input.yaml")
    config, *objects = (one for one in yaml.load_all(text, yaml.CSafeLoader) if one)
    return {key: value for key, value in config.items() if key not in ("apiVersion", "kind")}, objects


def recorded_rules(name):
    return {family: _recorded(name, f"{program}.txt") for family, program in sandbox.FAMILIES.items()}


def _recorded(name, file):
    return (sandbox.ROOT / "tests" / "recordings" / name / file).read_text(encoding="utf-8")
