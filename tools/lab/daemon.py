"""The proxy, running on a node of the laboratory."""

import os

from lab.cluster import CLUSTER_CIDR
from lab.process import Process
from lab.wait import SLACK


def to_yaml(value, indent=""):
    """Dictionaries, lists of scalars and scalars as YAML; enough for a configuration file."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict) and item:
            lines += [f"{indent}{key}:", to_yaml(item, indent + "  ")]
        elif isinstance(item, list):
            lines += [f"{indent}{key}:", *(f"{indent}- {_scalar(one)}" for one in item)]
        else:
            lines.append(f"{indent}{key}: {_scalar(item)}")
    return "\n".join(lines)


def _scalar(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else '"' + str(value) + '"'


def merge(base, extra):
    """The dictionary base with the values of extra laid over it, section by section."""
    merged = dict(base)
    for key, value in extra.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = merge(base[key], value) if both else value
    return merged


class Daemon(Process):
    """kube-proxy on one node, fed from `source`, a folder of manifests or an API server. Starts at once; close() ends it.

    `config` is laid over the configuration below, which is quick to react and leaves the machine's sysctls alone.
    Rules stay in the node's kernel when the daemon ends.
    """

    def __init__(self, cluster, node, binary, source, mode, config=None, flags=()):
        super().__init__(f"{node}: kube-proxy", cluster.state / f"kube-proxy-{node}.log")
        self.node = node
        self.config_file = cluster.state / f"kube-proxy-{node}.yaml"
        self._cluster = cluster
        self._source = source
        self._binary = os.path.abspath(binary)
        self._flags = list(flags)
        self._mode = mode
        self.configure(config)
        cluster.adopt(self)
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def configure(self, config=None):
        """Writes the configuration file. Takes effect at the next start.

        `masqueradeAll` may be given at the top: it goes to the section of every mode.
        """
        extra = dict(config or {})
        every_mode = {"syncPeriod": f"{SLACK:g}s", "minSyncPeriod": "1ms"}
        masquerade = {"masqueradeAll": extra.pop("masqueradeAll", False)}
        base = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": self._mode.name,
            "hostnameOverride": self.node,
            "clusterCIDR": CLUSTER_CIDR if self._cluster.dual_stack else CLUSTER_CIDR.split(",")[0],
            "healthzBindAddress": "0.0.0.0:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            # Zero leaves the kernel's values alone.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "iptables": every_mode | masquerade, "nftables": every_mode | masquerade, "ipvs": every_mode,
            "oomScoreAdj": 0,
            "logging": {"verbosity": 2},
            **self._mode.config,
        }
        temporary = self.config_file.with_suffix(".tmp")
        temporary.write_text(to_yaml(merge(merge(base, self._source.config), extra)) + "\n", encoding="utf-8")
        temporary.rename(self.config_file)

    def start(self):
        argv = [self._binary, f"--config={self.config_file}", *self._source.flags, *self._flags]
        env = {**os.environ, "PATH": self._mode.path(self._cluster.state)}
        self.launch(self._cluster.command(self.node, argv), env)

    def restart(self):
        self.stop()
        self.start()

    def close(self):
        if self.running():
            self.stop()
