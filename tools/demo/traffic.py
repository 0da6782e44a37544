"""Requests, counted: some at once, or many in the background while something changes."""

import collections
import dataclasses
import threading
import time

from lab.client import ANSWERED


@dataclasses.dataclass(frozen=True)
class Target:
    """A way to reach a Service, for a table."""

    client: str
    service: str
    kind: str  # "cluster IP", "node port", "load balancer"
    address: str
    port: int
    proto: str = "tcp"
    note: str = ""

    def __str__(self):
        return f"{self.address}:{self.port}"


@dataclasses.dataclass
class Count:
    """Who answered how often, whom the pods saw, and what else happened."""

    answers: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    seen: dict = dataclasses.field(default_factory=dict)  # pod -> the client's address as it saw it
    failures: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, result):
        if result.kind == ANSWERED:
            self.answers[result.pod] += 1
            self.seen[result.pod] = result.source
        else:
            self.failures[result.kind] += 1


def ask(cluster, target, times, timeout=1.0):
    count = Count()
    for _ in range(times):
        count.add(cluster.request(target.client, target.proto, target.address, target.port, timeout=timeout))
    return count


class Load:
    """Requests from several clients, one new connection each, until the with block ends.

    count is the count of the current phase; phase() begins another and returns the finished one.
    """

    PAUSE_S = 0.001

    def __init__(self, cluster, targets):
        self.count = Count()
        self._cluster = cluster
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(t,), daemon=True) for t in targets]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join()

    def phase(self):
        with self._lock:
            finished, self.count = self.count, Count()
        return finished

    def run_for(self, seconds):
        """Lets it run, and returns the count of that time alone."""
        self.phase()
        time.sleep(seconds)
        return self.phase()

    def _run(self, target):
        while not self._end.is_set():
            result = self._cluster.request(target.client, target.proto, target.address, target.port, timeout=1.0)
            with self._lock:
                self.count.add(result)
            time.sleep(self.PAUSE_S)
