"""Traffic that goes on while a test does something to the proxy, and what became of it."""

import dataclasses
import json
import pathlib
import subprocess
import sys

from lab.wait import SLACK, wait_for


@dataclasses.dataclass(frozen=True)
class Flow:
    """Where traffic comes from and where it goes; see flows.py for the two kinds."""

    kind: str  # "stream" or "probes"
    client: str  # a member of the cluster
    proto: str
    address: str
    port: int
    pause: float = 0.005
    timeout: float = 2.0
    own_ports: bool = False  # probes: no source port comes twice, as entries of the connection tracking outlive them

    @property
    def name(self):
        return f"{self.kind} {self.client} -> {self.proto} {self.address}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Record:
    """What became of a flow so far; most fields are those of flows.Record."""

    name: str
    sent: int
    failed: int
    failures: list
    pods: dict
    moves: int
    longest_gap_s: float
    retransmitted: int  # TCP segments that were lost
    late: int  # and those that TCP took for lost while the machine stood still

    @property
    def answered(self):
        return sum(self.pods.values())

    def __str__(self):
        pods = ", ".join(f"{pod} {count}" for pod, count in sorted(self.pods.items()))
        first = f"; first failure: {self.failures[0][2]}" if self.failures else ""
        return f"{self.name}: {self.sent} sent, {self.failed} failed ({pods}), {self.moves} moves, " \
               f"{self.retransmitted} retransmitted, {self.late} late, longest gap {self.longest_gap_s * 1000:.0f} ms{first}"


class Traffic:
    """Flows from their construction to close(), in a process of their own, so that the test does not hold them up."""

    def __init__(self, cluster, flows):
        spec = [{**dataclasses.asdict(flow), "name": flow.name, "timeout": flow.timeout * SLACK,
                 "netns": cluster[flow.client].netns.name} for flow in flows]
        argv = [sys.executable, "-B", str(pathlib.Path(__file__).with_name("flows.py")), json.dumps(spec)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cluster.adopt(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def pid(self):
        return self._process.pid

    def report(self):
        """The records so far, in the order of the flows."""
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        return [Record(**one) for one in json.loads(self._process.stdout.readline())]

    def wait_answers(self, count=20, seconds=60.0):
        """Waits until every flow has been answered so many times more than now."""
        before = [one.answered for one in self.report()]

        def enough():
            return all(now.answered >= then + count for now, then in zip(self.report(), before, strict=True))

        wait_for(enough, f"every flow is answered {count} times: {[str(one) for one in self.report()]}", seconds, every=0.05)

    def close(self):
        if self._process.poll() is None:
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait()
