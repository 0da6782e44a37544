#!/usr/bin/env python3
"""soak.py [--minutes N]: a proxy under traffic, to which everything happens that can happen to one.

The first half of the time with restarts, the second without, to see whether it grows. At the end the kernel equals the
plan, no request failed that had a healthy pod, and the proxy holds what it held. What is not counted as failed: requests
during the time from a neighbour's flush until the proxy has seen it, and while the kernel had no room for a connection.
Everything happens in network namespaces. Needs root.
"""

import argparse
import collections
import os
import pathlib
import random
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support"), str(pathlib.Path(__file__).resolve().parent)]
sys.dont_write_bytecode = True

import lab  # noqa: E402
from ground import Ground, probes  # noqa: E402
from trouble import Trouble  # noqa: E402

# How often each deed is done, in relation to the others.
CALM = {"change_a_service": 30, "change_many_services": 4, "change_healthy_pods": 15, "lose_netlink_messages": 2, "turn_the_clock": 2,
        "flush_everything": 1, "add_foreign_rules": 3, "pester_http": 3, "hang_up_watches": 3}
OF_MODE = {"iptables": {"kill_a_program": 3, "flush_nat": 1}, "nftables": {"damage_a_table": 2}}
RESTARTS = {"stop_and_start": 4, "kill_and_start": 6, "fill_the_disk": 2, "take_the_memory": 2, "unhook_and_restart": 1}
CHECKED_EVERY = 10
# After everything once: it has then taken the memory that it works with.
WARM_UP = ["change_many_services"] * 10
TOLERANCE = 0.05
# A request that was on its way when the rules went may be lost.
MARGIN_S = 0.5


class Soak:
    def __init__(self, ground, seed):
        self.ground = ground
        self.choose = random.Random(seed)
        self.trouble = Trouble(ground, self.choose)
        self.calm = {**CALM, **OF_MODE[ground.mode.name]}
        self.done = collections.Counter()
        self.problems = []
        self.history = []
        self.baseline = self.end = None

    def run(self, seconds):
        self.began = began = time.monotonic()
        self._phase({**self.calm, **RESTARTS}, began + seconds / 2)
        self._do("fill_conntrack")
        if not self._quiesce():
            return
        for deed in [*self.calm, *WARM_UP]:
            self._do(deed)
        self._quiesce()
        self.baseline = self.trouble.held()
        self._phase(self.calm, began + seconds)
        self._quiesce()
        self.end = self.trouble.held()
        self._judge()

    def _phase(self, weights, until):
        while time.monotonic() < until:
            for deed in self.choose.choices(list(weights), list(weights.values()), k=CHECKED_EVERY):
                self._do(deed)
                time.sleep(self.choose.random() * 0.2)
            self.trouble.wait_taken_up()

    def _do(self, deed):
        self.done[deed] += 1
        self.history.append(f"{time.monotonic() - self.began:7.2f} {deed}")
        getattr(self.trouble, deed)()
        if not self.ground.daemon.running():
            self.problems.append(f"the proxy ended during \"{deed}\": {self.ground.daemon.log_text()[-1500:]}")
            self.ground.daemon.start()

    def _quiesce(self):
        """Everything as at the start, no faults, and the proxy at rest; then the kernel must equal the plan."""
        self.trouble.hang_up()
        self.trouble.settle()
        self.trouble.wait_taken_up()
        try:
            lab.wait_for(lambda: not self.ground.differences(), "the kernel equals the plan", 60, every=0.5)
        except lab.NotInTime as error:
            self.problems.append(f"{error}\n{self.ground.differences()[:3000]}")
            return False
        self.ground.wait_watched()
        return True

    def _judge(self):
        self._judge_traffic()
        if not self.trouble.foreign_rules_stay():
            self.problems.append("the neighbour's rules are gone")
        (memory, descriptors), (memory_end, descriptors_end) = self.baseline, self.end
        if abs(memory_end - memory) > TOLERANCE * memory:
            self.problems.append(f"resident memory went from {memory:.1f} to {memory_end:.1f} MB")
        if descriptors != descriptors_end:
            self.problems.append(f"descriptors went from {descriptors} to {descriptors_end}")

    def _judge_traffic(self):
        for record in self.ground.traffic.report():
            if record.answered == 0:
                self.problems.append(f"never answered: {record}")
            if record.failed > len(record.failures):
                self.problems.append(f"more failures than anybody looks at: {record}")
            unexcused = self._unexcused(record)
            if unexcused:
                times = ", ".join(f"{begun - self.began:.2f} to {ended - self.began:.2f} s: {what}" for begun, ended, what in unexcused[:5])
                self.problems.append(f"{record.name}: {len(unexcused)} failed: {times}")
            # One that was broken is begun anew, and may find another pod.
            if record.name.startswith("stream") and record.moves > record.failed:
                self.problems.append(f"changed its pod: {record}")

    def _unexcused(self, record):
        """A UDP answer that is on its way in the moment in which its pod is removed finds its connection gone: one for each
        time, as a flow asks only when it was answered."""
        removals = [removal for number, times in self.trouble.removals.items() if record.name == probes(number, "udp").name
                    for removal in times]
        left = []
        for failure in record.failures:
            if self._excused(record, failure):
                continue
            removal = next((one for one in removals if overlap(failure, one)), None)
            if removal:
                removals.remove(removal)
            else:
                left.append(failure)
        return left

    def _excused(self, record, failure):
        """Streams need no room that they do not have already."""
        windows = self.trouble.without_rules + ([] if record.name.startswith("stream") else self.trouble.without_room)
        return any(overlap(failure, window) for window in windows)

    def report(self):
        records = self.ground.traffic.report()
        excused = sum(self._excused(record, failure) for record in records for failure in record.failures)
        rules_s, room_s = (sum(to - since for since, to in times) for times in (self.trouble.without_rules, self.trouble.without_room))
        gap_s = max(record.longest_gap_s for record in records if record.name.startswith("stream"))
        rows = [("deeds", f"{self.done.total()}: " + ", ".join(f"{name} {count}" for name, count in sorted(self.done.items()))),
                ("restarts", self.trouble.restarted),
                ("requests answered", sum(record.answered for record in records)),
                ("requests failed", f"{sum(record.failed for record in records)}, of them {excused} in {rules_s:.1f} s without rules "
                                    f"and {room_s:.1f} s without room"),
                ("longest gap of a stream, flushes included", f"{gap_s * 1000:.0f} ms")]
        if self.end:
            rows += [("resident memory", f"{self.baseline[0]:.1f} MB, at the end {self.end[0]:.1f} MB"),
                     ("descriptors", f"{len(self.baseline[1])}, at the end {len(self.end[1])}")]
        return "\n".join(f"| {name} | {value} |" for name, value in rows)


def overlap(failure, window):
    (begun, ended, _), (since, to) = failure, window
    return begun <= to + MARGIN_S and ended >= since - MARGIN_S


def soak(options):
    """Runs it, prints a table, and returns what was wrong."""
    seed = options.seed or int.from_bytes(os.urandom(3))
    name = "nftables" if options.mode == "nftables" else f"iptables-{options.variant}"
    print(f"soak: {options.minutes:g} minutes, {name}, objects from {options.source}, --seed={seed}", flush=True)
    ground = Ground(options.binary, lab.Mode(options.mode, options.variant), options.source)
    made = Soak(ground, seed)
    try:
        made.run(options.minutes * 60)
    except (lab.NotInTime, RuntimeError, OSError) as error:
        made.problems.append(f"{type(error).__name__}: {error}")
    finally:
        try:
            print(f"| what | --seed={seed} |\n|---|---|\n{made.report()}", flush=True)
        finally:
            made.trouble.close()
            ground.close()
    if made.problems:
        print("What happened when, in seconds:", *made.history, sep="\n", flush=True)
    return made.problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0, help="0 draws one")
    parser.add_argument("--mode", choices=["iptables", "nftables"], default="iptables", help="of the proxy")
    parser.add_argument("--variant", choices=["nft", "legacy"], default="nft", help="which iptables is behind the name")
    parser.add_argument("--source", choices=["manifests", "api"], default="api", help="where the proxy's objects are")
    parser.add_argument("--binary", default=os.environ.get("KUBE_PROXY", str(ROOT / "build" / "kube-proxy")))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended from outside, we still clean up
    missing = lab.missing_capabilities()
    if missing:
        print("skipped, missing: " + ", ".join(missing))
        sys.exit(77)
    problems = soak(options)
    print("\n".join(problems) if problems else "all is well")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
