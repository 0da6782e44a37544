"""Objects for manifests, and a daemon in a sandbox that serves the manifests of a folder."""

import json
import pathlib
import subprocess

import sandbox as boxes
from lab.wait import NotInTime, wait_for

CONFIG = """apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
hostnameOverride: node1
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
iptables: {syncPeriod: 1s, minSyncPeriod: 1ms}
"""

GOOD_IP = "10.96.0.99"


def service(name="web", ip="10.96.0.10", **spec):
    given = {"clusterIP": ip, "ports": [{"name": "http", "port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": given}


def endpoint_slice(name="web", addresses=("10.244.1.2",), kind="IPv4", ports=({"name": "http", "port": 8080},), **more):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": kind,
            "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
            "endpoints": [{"addresses": [address]} for address in addresses], "ports": list(ports), **more}


# Served whatever else happens.
GOOD = [service("good", GOOD_IP), endpoint_slice("good")]


def as_yaml(objects):
    """JSON is YAML: one object on a line, so that the line of a mistake is known."""
    return "".join(f"---\n{json.dumps(one)}\n" for one in objects)


class Daemon:
    """Runs from the start on. `front`: a program and its arguments that the daemon is started by."""

    def __init__(self, box, config=CONFIG, front=()):
        self.box = box
        self.folder = pathlib.Path(box.folder) / "manifests"
        self.folder.mkdir(exist_ok=True)
        self.config = box.file("daemon.yaml", config)
        self._log = pathlib.Path(box.folder) / "log"
        with open(self._log, "w", encoding="utf8") as log:
            self.process = subprocess.Popen(["ip", "netns", "exec", box.ns.name, *front, boxes.BINARY, f"--config={self.config}",
                                             f"--manifests={self.folder}"],
                                            env=box.environment(), stderr=log, stdin=subprocess.DEVNULL)

    def log(self):
        return self._log.read_text()

    def save(self, name, data):
        """As an editor does it: renamed into place."""
        scratch = self.folder / ".new"
        scratch.write_bytes(data if isinstance(data, bytes) else data.encode())
        scratch.rename(self.folder / name)

    def wait(self, condition, what):
        try:
            wait_for(condition, what, 60)
        except NotInTime as late:
            raise AssertionError(f"{late}; log:\n{self.log()}") from late

    def wait_for_rule(self, part):
        self.wait(lambda: part in self.box.save(), f"{part} in the rules")

    def wait_for_log(self, text, count=1):
        self.wait(lambda: self.log().count(text) >= count, f"{text!r} in the log")

    def wait_end(self):
        """The exit status."""
        return self.process.wait(60)

    def kill(self):
        self.process.kill()
        self.process.wait()
