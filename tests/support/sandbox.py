"""A node in a box: a network namespace with the addresses that the recordings were made with, and the programs of
one iptables variant. Everything in it goes away with it; nothing outside is touched."""

import contextlib
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from lab.netns import Netns  # noqa: E402

BINARY = os.environ.get("KUBE_PROXY", str(ROOT / "build" / "kube-proxy"))
RECORDINGS = sorted(p.parent.name for p in (ROOT / "tests" / "recordings").glob("*/input.yaml"))
FAMILIES = {"ipv4": "iptables", "ipv6": "ip6tables"}

_numbers = itertools.count(1)


def require(variant="nft"):
    """Ends the run with 77, saying why, where a sandbox cannot be made."""
    for missing, why in [(os.geteuid() != 0, "root"), (shutil.which("ip") is None, "the program ip (package iproute2)"),
                         (not os.path.exists(f"/usr/sbin/xtables-{variant}-multi"), "iptables (package iptables)")]:
        if missing:
            pytest.exit(f"skipped: this suite needs {why}", returncode=77)


def program_folder(folder, variant):
    """A folder for PATH in which iptables and its relatives are of one variant."""
    for family in ("iptables", "ip6tables"):
        for program in (family, f"{family}-save", f"{family}-restore"):
            os.symlink(f"/usr/sbin/xtables-{variant}-multi", os.path.join(folder, program))
    return folder


def config_of(recording):
    """The KubeProxyConfiguration of a recording: the first document of its input."""
    text = (ROOT / "tests" / "recordings" / recording / "input.yaml").read_text()
    return text.split("\n---\n")[0] + "\n"


def objects_of(recording):
    return ROOT / "tests" / "recordings" / recording / "objects.yaml"


def same_rules(expected, actual, scratch):
    """What tests/support/compare-rules says about two dumps: "same", or their difference."""
    path = pathlib.Path(scratch) / "actual.txt"
    path.write_text(actual)
    done = subprocess.run([sys.executable, str(ROOT / "tests" / "support" / "compare-rules"), "iptables", str(expected), str(path)],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip()


class Sandbox:
    def __init__(self, variant="nft"):
        self.folder = tempfile.mkdtemp(prefix="kp-sandbox-")
        self.programs = os.path.join(self.folder, "bin")
        os.mkdir(self.programs)
        program_folder(self.programs, variant)
        self.ns = Netns(f"kps{os.getpid()}-{next(_numbers)}")
        self.ns.ip("link set lo up", "addr add 192.168.77.1/24 dev lo", "link add eth0 type veth peer name eth0p",
                   "addr add 172.31.0.11/24 dev eth0", "addr add fd00:31::11/64 dev eth0 nodad", "link set eth0 up", "link set eth0p up")

    def close(self):
        self.ns.close()
        shutil.rmtree(self.folder)

    def environment(self):
        """PATH leads to the variant; the lock of iptables-legacy is the box's own."""
        return dict(os.environ, PATH=f"{self.programs}:{os.environ['PATH']}", XTABLES_LOCKFILE=f"{self.folder}/xtables.lock")

    def run(self, *argv, **options):
        """Runs a program inside; returns what subprocess.run returns, with text output captured."""
        return subprocess.run(["ip", "netns", "exec", self.ns.name, *map(str, argv)], env=options.pop("env", self.environment()),
                              capture_output=True, text=True, check=False, timeout=options.pop("timeout", 120), **options)

    def proxy(self, *argv, **options):
        return self.run(BINARY, *argv, **options)

    def file(self, name, text):
        path = pathlib.Path(self.folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def save(self, family="ipv4"):
        done = self.run(f"{FAMILIES[family]}-save")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rules(self, family="ipv4"):
        """The dump without counters and comments, for exact comparisons."""
        lines = [line for line in self.save(family).splitlines() if not line.startswith("#")]
        return [line.split(" [")[0] if line.startswith(":") else line for line in lines]


@contextlib.contextmanager
def sandbox(variant="nft"):
    box = Sandbox(variant)
    try:
        yield box
    finally:
        box.close()
