"""The part of bench/ipvs that runs in the virtual machine: ipvs_guest.py FOLDER TASK, the task as JSON.

Writes lines of JSON: {"say": text}, or {"result": [side, services, {what: value}]}.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / one) for one in ("tools", "tests/support", "tests/conformance", "bench")]

import lab  # noqa: E402
from beside import first_sync, service_of, slice_of  # noqa: E402
from ipvs_kernel import Requests, Servers, held  # noqa: E402
from ipvs_rows import (  # noqa: E402
    CHANGE_CPU, CHANGE_MEDIAN, CHANGE_P99, HAVING, MEMORY, MESSAGES, MORE, OWN, PEAK, PROGRAMS, PROGRAMS_CPU, PROXY_CPU, START, SYNC)
from lab.process import Process  # noqa: E402
from measure import cpu, memory_mb, number, p99, wait_idle  # noqa: E402
from node import METRICS_PORT  # noqa: E402
from prepared_api import NODE  # noqa: E402

FOLDER, TASK = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
ENDPOINTS, HOST, ADDRESS = TASK["endpoints"], TASK["host"], TASK["address"]
DEVICE = "eth0"
SYNC_SUM = r'kubeproxy_sync_proxy_rules_duration_seconds_sum\{ip_family="IPv4"\} (\S+)'


def tell(**line):
    print(json.dumps(line), flush=True)


_clocks = []


def check_clock(outside):
    """Says so if the clock in here goes wrong, as that of a machine that was disturbed when it booted may."""
    _clocks.append((outside, time.monotonic()))
    (first, here), (last, now) = _clocks[0], _clocks[-1]
    if last - first > 10 and not 0.98 < (now - here) / (last - first) < 1.02:
        tell(say=f"  WRONG CLOCK: {now - here:.1f} s in the machine were {last - first:.1f} s outside")


class Node:
    """A network namespace with the machine's network device, and nothing else in its kernel."""

    def __init__(self, name):
        self.netns = lab.netns.Netns(name)
        # A device comes back when the namespace that had it is taken apart.
        lab.wait_for(lambda: os.path.exists(f"/sys/class/net/{DEVICE}"), "the network device is here", 60)
        lab.netns.ip("link", "set", DEVICE, "netns", name)
        # The emulated network announces IPv6 prefixes: addresses that come meanwhile would make a proxy sync again.
        self.netns.sysctl({f"ipv6/conf/{DEVICE}/accept_ra": 0})
        self.netns.ip("link set lo up", f"address add {ADDRESS}/24 dev {DEVICE}", f"link set {DEVICE} up", f"route add default via {HOST}")

    def close(self):
        self.netns.close()


class Api:
    """The stand-in on the host, as the benchmark speaks to it from a node."""

    def __init__(self, netns, services):
        self.url = f"http://{HOST}:{TASK['ports'][str(services)]}"
        self._connection = http.client.HTTPConnection(HOST, TASK["ports"][str(services)])
        with netns.entered():
            self._connection.connect()

    def close(self):
        self._connection.close()

    def ask(self, method, path):
        self._connection.request(method, path)
        return json.loads(self._connection.getresponse().read())


class Proxy:
    """One proxy on a node, with so many services."""

    def __init__(self, node, side, services):
        self.side, self.services, self.netns = side, services, node.netns
        self.api = Api(node.netns, services)
        self.servers = None
        self.changed = 0
        self.process = Process(side, FOLDER / f"{side}-{services}.log")
        config = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "ipvs",
            "hostnameOverride": NODE, "clusterCIDR": "10.244.0.0/16", "metricsBindAddress": f"127.0.0.1:{METRICS_PORT}",
            "clientConnection": {"kubeconfig": str(FOLDER / "kubeconfig")},
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            # Nothing but the changes makes it sync.
            "ipvs": {"minSyncPeriod": "0s", "syncPeriod": "1h"}, "logging": {"verbosity": 2},
        }
        (FOLDER / "config").write_text(lab.to_yaml(config), encoding="utf-8")
        (FOLDER / "kubeconfig").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
            "clusters": [{"name": "k", "cluster": {"server": self.api.url}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}), encoding="utf-8")

    def close(self):
        self.process.kill_all()
        self.api.close()
        if self.servers:
            self.servers.close()

    def say(self, text):
        tell(say=f"  {self.side}, {self.services}: {text}")

    # Starting

    def start(self, limit):
        """Runs it until all is in the kernel. None if that takes longer."""
        begin = time.time()
        argv = ["ip", "netns", "exec", self.netns.name, TASK["binaries"][self.side], f"--config={FOLDER / 'config'}"]
        self.process.launch(argv, {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        try:
            end = lab.wait_for(self.synced, "the first sync", limit, every=1.0)
        except lab.NotInTime:
            return None
        own, programs = cpu(self.process.pid)
        told = self.api.ask("GET", "/told")
        having = time.time() - told["seconds"]
        check_clock(told["clock"])
        sync = float(re.search(SYNC_SUM, lab.client.page(self.netns, METRICS_PORT, "/metrics"))[1])
        found = {START: end - begin, HAVING: end - having, SYNC: sync, PROXY_CPU: own, PROGRAMS_CPU: programs}
        self.check()
        self.say(", ".join(f"{key} {number(value)}" for key, value in found.items()))
        return found

    def synced(self):
        if not self.process.running():
            raise SystemExit(f"{self.side} has ended:\n" + "\n".join(self.process.log_text().splitlines()[-20:]))
        return first_sync(self.netns)

    def check(self):
        found = held(self.netns)
        wanted = {"virtual servers": self.services, "real servers": self.services * ENDPOINTS, "addresses": self.services,
                  "entries of sets": 2 * self.services}
        if found != wanted:
            raise SystemExit(f"{self.side}: {found} in the kernel, and not {wanted}")

    def rest(self):
        """Waits until it has nothing to do."""
        wait_idle(self.process, quiet=1.5, seconds=600)

    def memory(self):
        self.rest()
        return {MEMORY: memory_mb(self.process.pid), OWN: memory_mb(self.process.pid, "RssAnon"), PEAK: memory_mb(self.process.pid, "VmHWM")}

    # Changes

    def change(self):
        """Replaces one address of a service, each time of another; returns after how long the kernel has it."""
        self.servers = self.servers or Servers(self.netns)
        turn, service = divmod(self.changed, self.services)
        self.changed += 1
        wanted = {one["addresses"][0] for one in slice_of(service, ENDPOINTS, turn + 1)["endpoints"]}
        address = service_of(service)["spec"]["clusterIP"]
        begin = time.monotonic()
        self.api.ask("POST", f"/replace?service={service}&turn={turn + 1}")
        lab.wait_for(lambda: self.servers.reals(address, 80) == wanted, "the kernel has the change", 300, every=0.001)
        return time.monotonic() - begin

    def changes(self, count):
        took, used = [], []
        for _ in range(count):
            before = sum(cpu(self.process.pid))
            took.append(self.change())
            self.rest()
            used.append(sum(cpu(self.process.pid)) - before)
        self.say(f"{count} changes: {', '.join(map(number, took))} s")
        return {CHANGE_MEDIAN: statistics.median(took), CHANGE_P99: p99(took), CHANGE_CPU: statistics.mean(used)}

    def asked(self, requests, count):
        """What a change makes it ask of the kernel: the most of so many."""
        seen = []
        for _ in range(count):
            with requests.counted(self.process.pid) as counts:
                self.change()
                self.rest()
            seen.append(counts)
        self.say(f"asked for a change: {seen}")
        return {MESSAGES: max(one["messages"] for one in seen), PROGRAMS: max(one["programs"] for one in seen)}


def medians(rounds):
    return {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}


def begun(side, services, starts, limit, stack):
    """A proxy that has been started on a clean node so many times, and runs. None if it was not done in time."""
    rounds = []
    for turn in range(starts):
        if turn:
            stack.close()
        node = stack.enter_context(contextlib.closing(Node(f"{side}-{services}-{turn}")))
        proxy = stack.enter_context(contextlib.closing(Proxy(node, side, services)))
        rounds.append(proxy.start(limit))
        if rounds[-1] is None:
            return node, proxy, None
    return node, proxy, medians(rounds)


def whole(side, services, requests, stack):
    """Everything about a proxy, from an empty kernel on. Returns the node, and the proxy, which still runs."""
    wish = TASK[side]
    node, proxy, found = begun(side, services, wish["starts"], wish["limit"], stack)
    if found is None:
        raise SystemExit(f"{side}, {services}: no first sync in {wish['limit']} s; in the kernel: {held(node.netns)}")
    tell(result=[side, services, found])
    go_on(proxy, wish["changes"], requests)
    return node, proxy


def go_on(proxy, changes, requests):
    """What is measured once everything is in the kernel."""
    for part in (proxy.memory, lambda: proxy.changes(changes), lambda: proxy.asked(requests, min(changes, 3))):
        tell(result=[proxy.side, proxy.services, part()])


def with_heir(services, requests, stack):
    """Ours from an empty kernel on; then the real one takes over what ours has left, as a start of its own takes too long."""
    node, proxy = whole("ours", services, requests, stack)
    proxy.close()
    heir = stack.enter_context(contextlib.closing(Proxy(node, "real", services)))
    if heir.start(TASK["real"]["limit"]) is None:
        raise SystemExit(f"real, {services}: no sync over what is there")
    go_on(heir, 3, requests)


def first_part(services, seconds, stack):
    """How far the real one comes from an empty kernel, in so many seconds."""
    node, proxy, found = begun("real", services, 1, seconds, stack)
    if found is None:
        proxy.process.kill_all()
        proxy.say(f"cut after {seconds:.0f} s, when there were {held(node.netns)}")
        found = {MORE: seconds}
    tell(result=["real", services, found])


def main():
    end = time.monotonic() + TASK["seconds"]
    small, large = TASK["sizes"]
    with contextlib.closing(Requests()) as requests:
        for part in (lambda stack: whole("ours", small, requests, stack), lambda stack: whole("real", small, requests, stack),
                     lambda stack: with_heir(large, requests, stack),
                     lambda stack: first_part(large, min(TASK["part"], end - time.monotonic()), stack)):
            with contextlib.ExitStack() as stack:
                part(stack)


if __name__ == "__main__":
    main()
