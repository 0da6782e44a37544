"""What differs between the modes of the proxy, as far as the laboratory must know."""

import os
import pathlib

from lab.wait import SLACK

_XTABLES = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")

_FEATURES = {
    "iptables": {"localhost-node-ports", "rules-restored"},  # on localhost without asking for it
    "nftables": {"rules-restored"},
    "ipvs": {"rules-restored"},
    "userspace": {"localhost-node-ports", "rules-restored"},
}
MODES = tuple(_FEATURES)

# Answers that come later find no way back to the client, and a busy machine may stand still for longer than 250 ms.
_CONFIG = {"userspace": {"udpIdleTimeout": f"{2 * SLACK:g}s"}}

# What shows, and what empties, that which is not in iptables.
_SHOW = {
    "nftables": (["nft", "list", "ruleset"],),
    "ipvs": (["ipvsadm", "-Sn"], ["ipset", "save"], ["ip", "-o", "address", "show", "dev", "kube-ipvs0"]),
}
_FLUSH = {
    "nftables": (["nft", "flush", "ruleset"],),
    "ipvs": (["ipvsadm", "-C"], ["ipset", "flush"], ["ip", "address", "flush", "dev", "kube-ipvs0"]),
}


class Mode:
    """A mode, and for modes built on iptables the variant of the tool: "nft" or "legacy".

    `features` are abilities that not every mode has; a test may ask for one. A `piecemeal` mode does not write all of a change
    at once: some of it may work while the rest is still to come. `config` is what the proxy's configuration has in this mode only.
    """

    def __init__(self, name, variant="nft"):
        self.name = name
        self.variant = variant
        self.features = _FEATURES.get(name, set())
        self.piecemeal = name == "ipvs"
        self.config = _CONFIG.get(name, {})

    def folder(self, state):
        """A folder in which the names iptables, ip6tables-save and so on are the wanted variant. A test may replace one."""
        folder = pathlib.Path(state) / f"bin-{self.variant}"
        folder.mkdir(exist_ok=True)
        for tool in _XTABLES:
            if not (folder / tool).exists():
                (folder / tool).symlink_to(f"/usr/sbin/xtables-{self.variant}-multi")
        return folder

    def path(self, state):
        """A PATH that begins with that folder."""
        return f"{self.folder(state)}:/usr/local/sbin:/usr/sbin:/sbin:{os.environ['PATH']}"

    def run(self, cluster, node, argv, **options):
        """Runs a program on a node with this mode's PATH; raises when it fails."""
        env = {**os.environ, "PATH": self.path(cluster.state)}
        done = cluster.run(node, argv, env=env, **options)
        if done.returncode != 0:
            raise RuntimeError(f"{node}: {' '.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    def rules(self, cluster, node):
        """Everything the proxy may have put into the node's kernel, as text, for people to read."""
        return "".join(self.run(cluster, node, argv) for argv in (*_SHOW.get(self.name, ()), ["iptables-save"], ["ip6tables-save"]))

    def flush(self, cluster, node):
        """Deletes all rules behind the proxy's back, as an administrator's mistake would."""
        for argv in _FLUSH.get(self.name, ()):
            self.run(cluster, node, argv)
        if self.name == "nftables":
            return
        for tool in ("iptables-restore", "ip6tables-restore"):
            self.run(cluster, node, [tool, "-w", "60"], input="*nat\nCOMMIT\n*filter\nCOMMIT\n*mangle\nCOMMIT\n")

    def add_host_port(self, cluster, node, proto, host_port, address, port):
        """Publishes a pod on a port of the node the way the portmap CNI plugin does: a rule that is not ours."""
        chain = "CNI-HOSTPORT-DNAT"
        self._nat(cluster, node, "-N", chain)
        for hook in ("PREROUTING", "OUTPUT"):
            self._nat(cluster, node, "-A", hook, "-m", "addrtype", "--dst-type", "LOCAL", "-j", chain)
        self._nat(cluster, node, "-A", chain, "-p", proto, "--dport", str(host_port),
                  "-j", "DNAT", "--to-destination", f"{address}:{port}")

    def remove_host_port(self, cluster, node):
        chain = "CNI-HOSTPORT-DNAT"
        for hook in ("PREROUTING", "OUTPUT"):
            self._nat(cluster, node, "-D", hook, "-m", "addrtype", "--dst-type", "LOCAL", "-j", chain)
        self._nat(cluster, node, "-F", chain)
        self._nat(cluster, node, "-X", chain)

    def _nat(self, cluster, node, *arguments):
        self.run(cluster, node, ["iptables", "-w", "60", "-t", "nat", *arguments])
