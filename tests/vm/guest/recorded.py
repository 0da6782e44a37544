"""A node as the recordings of mode ipvs were made on it, in a namespace of its own, and what a proxy leaves in its kernel."""

import contextlib
import io
import itertools
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tempfile

import sandbox
from lab import client
from lab.netns import Netns
from lab.process import Process
from lab.wait import wait_for

RECORDINGS = sandbox.ROOT / "tests" / "recordings"
COMPARE = sandbox.ROOT / "tests" / "support" / "compare-rules"
# File of a recording: the kind of its comparison, and what shows the same here.
DUMPS = {
    "ipvs.txt": ("ipvs", ["ipvsadm-save", "-n"]),
    "ipset.txt": ("ipset", ["ipset", "save"]),
    "iptables-ipvs.txt": ("iptables", ["iptables-save"]),
    "ip6tables-ipvs.txt": ("iptables", ["ip6tables-save"]),
    "kube-ipvs0.txt": ("addresses", ["ip", "-o", "addr", "show", "dev", "kube-ipvs0"]),
}
CONFIG = """mode: ipvs
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
oomScoreAdj: 0
"""
SYNCS = r'kubeproxy_sync_proxy_rules_duration_seconds_count\{ip_family="(\w+)"\} (\d+)'

_numbers = itertools.count(1)


class Node:
    """No proxy runs on it until start()."""

    def __init__(self, recording):
        self.recording = RECORDINGS / recording
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kp-node-"))
        self.netns = Netns(f"kpr{os.getpid()}-{next(_numbers)}")
        self.netns.ip("link set lo up", "addr add 192.168.77.1/24 dev lo", "link add eth0 type veth peer name eth0p",
                      "addr add 172.31.0.11/24 dev eth0", "link set eth0 up", "link set eth0p up",
                      "route add default via 172.31.0.1")
        (self.folder / "config.yaml").write_text(sandbox.config_of(recording) + CONFIG)
        self.daemon = Process("kube-proxy", self.folder / "log")

    def close(self):
        self.daemon.kill()
        self.netns.close()
        shutil.rmtree(self.folder)

    def launch(self):
        """Starts the proxy."""
        argv = [sandbox.BINARY, f"--config={self.folder / 'config.yaml'}", f"--manifests={self.recording / 'objects.yaml'}"]
        self.daemon.launch(["ip", "netns", "exec", self.netns.name, *argv])

    def start(self):
        """Starts the proxy, and waits until both families have synced."""
        self.launch()
        wait_for(self._synced, "both families have synced", 30)

    def stop(self):
        self.daemon.stop()

    def dump(self, file):
        return self._run(DUMPS[file][1])

    def difference(self, file):
        """How the kernel differs from a file of the recording, or "same"."""
        actual = self.folder / file
        actual.write_text(self.dump(file))
        return compare(DUMPS[file][0], self.recording / file, actual)

    def sysctls(self):
        """{name: value} of those that the recording has."""
        names = [line.split(" = ")[0] for line in (self.recording / "sysctl.txt").read_text().splitlines()]
        with self.netns.entered():
            return {name: pathlib.Path("/proc/sys", *name.split(".")).read_text().strip() for name in names}

    def restore(self):
        """Puts into the kernel what the recorded kube-proxy left there."""
        sets = sorted((self.recording / "ipset.txt").read_text().splitlines(), reverse=True)  # "create" before "add"
        self._run(["ipset", "restore"], "\n".join(sets) + "\n")
        for program in ("iptables", "ip6tables"):
            self._run([f"{program}-restore"], (self.recording / f"{program}-ipvs.txt").read_text())
        self._run(["ipvsadm-restore", "-n"], (self.recording / "ipvs.txt").read_text())
        addresses = [line.split()[3] for line in (self.recording / "kube-ipvs0.txt").read_text().splitlines()]
        self.netns.ip("link add kube-ipvs0 type dummy",
                      *(f"addr add {one} dev kube-ipvs0" for one in addresses if not one.startswith("fe80:")))

    def _run(self, argv, text=None):
        done = subprocess.run(["ip", "netns", "exec", self.netns.name, *argv], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout

    def _synced(self):
        assert self.daemon.running(), self.daemon.log_text()
        try:
            found = dict(re.findall(SYNCS, client.page(self.netns, 10249, "/metrics")))
        except OSError:
            return False
        return len(found) == 2 and min(map(int, found.values())) >= 1


def compare(kind, expected, actual):
    """What compare-rules says; a process for each would take most of the time here."""
    said, argv = io.StringIO(), sys.argv
    sys.argv = [str(COMPARE), kind, str(expected), str(actual)]
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            runpy.run_path(str(COMPARE), run_name="__main__")
    finally:
        sys.argv = argv
    return said.getvalue().strip()
