#!/usr/bin/env python3
"""Boots a virtual machine with Debian's kernel once, and runs the suites of tests/vm in it.

    tests/vm/run.py                             all of them
    tests/vm/run.py ipvs_drain cleanup          these
    tests/vm/run.py ipvs_drain -- -k restart    with more arguments for pytest

KUBE_PROXY names the program under test; by default build/kube-proxy. With KP_SOURCE=api it gets its objects from an API
server, which the original needs. Each test is told when it ends. Up to three failing tests of a suite are run once more, each
alone in the same machine; those that pass then are flaky, and count as passed. KP_RERUN=0: not so.
Status 0: all passed; 1: not; 77: no virtual machine can be had, and a line says why.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(HERE)]

import suites  # noqa: E402
from ci import flaky  # noqa: E402
from lab import vm  # noqa: E402

BINARY = os.environ.get("KUBE_PROXY", str(ROOT / "build" / "kube-proxy"))
FLAKY = flaky.folder(pathlib.Path(BINARY).resolve().parent / "flaky")
SECONDS = 1500  # for all; a machine that is not loaded needs a third of it
SILENCE_S = 300  # a loaded host may need that to boot


class Report:
    """Prints what happens, and counts it."""

    def __init__(self, folder):
        self._folder = folder
        self._began = time.monotonic()
        self.outcomes = {}  # suite: {outcome: how many}
        self.seconds = {}  # suite: how long it took
        self.running = {}  # suite: test
        self._first = {}  # (suite, id): what a failing test said

    def hear(self, line):
        try:
            event = json.loads(line)
        except ValueError:
            print(line, flush=True)
            return
        getattr(self, "_" + event["event"])(event)

    def _starts(self, event):
        self.outcomes[event["suite"]] = {}
        self.running[event["suite"]] = "(starting)"

    def _begins(self, event):
        self.running[event["suite"]] = event["test"]

    def _ends(self, event):
        suite, outcome = event["suite"], event["outcome"]
        self.running[suite] = "(between tests)"
        self.outcomes[suite][outcome] = self.outcomes[suite].get(outcome, 0) + 1
        why = f": {event['text']}" if outcome in ("skipped", "xfailed") else ""
        self._say(f"{outcome:7} {suite}: {event['test']} ({event['seconds']:.1f} s){why}")
        if outcome == "failed":
            self._first[suite, event["id"]] = event["text"]
            print(event["text"], flush=True)

    def _again(self, event):
        suite, test, outcome = event["suite"], event["test"], event["outcome"]
        self.running.pop(suite, None)
        self._say(f"{outcome:7} {suite}: {test} ({event['seconds']:.1f} s), alone")
        if outcome != "passed":
            print(event["text"], flush=True)
            return
        counts = self.outcomes[suite]
        counts["failed"] -= 1
        counts["flaky"] = counts.get("flaky", 0) + 1
        first = self._first[suite, event["id"]]
        print("\n".join([f"=== Flaky: {test}: it failed, and passed alone; first it said:", *flaky.cut(first)]), flush=True)
        flaky.note(FLAKY, f"tests/vm {suite}", event["id"], first)

    def _over(self, event):
        suite, status = event["suite"], event["status"]
        del self.running[suite]
        self.seconds[suite] = event["seconds"]
        if status not in (0, 1) or (status == 1 and "failed" not in self.outcomes[suite]):
            self.outcomes[suite]["failed"] = self.outcomes[suite].get("failed", 0) + 1
            self._say(f"failed  {suite}: pytest ended with {status}")
            print(self._end_of_log(suite), flush=True)

    def lost(self):
        """What ran when the machine was lost."""
        for suite, test in self.running.items():
            print(f"-- was running: {suite}: {test}\n{self._end_of_log(suite)}")

    def summary(self):
        for suite, seconds in self.seconds.items():
            counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes[suite].items()) if count)
            print(f"{suite:20} {seconds:6.1f} s  {counts or 'no tests'}")
        self._say("all suites are over")

    def failed(self):
        return any(counts.get("failed") or not counts for counts in self.outcomes.values())

    def _say(self, text):
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", flush=True)

    def _end_of_log(self, suite):
        path = self._folder / f"{suite}.log"
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-60:]) if path.exists() else ""


def arguments(argv):
    own, options = (argv[:argv.index("--")], argv[argv.index("--") + 1:]) if "--" in argv else (argv, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help=f"one of {', '.join(suites.known())}")
    # One more than processors, as some of them mostly wait.
    parser.add_argument("--jobs", type=int, default=vm.PROCESSORS + 1, help="suites that run at once")
    chosen = parser.parse_args(own)
    unknown = set(chosen.suites) - set(suites.known())
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(suites.known())}")
    return chosen, options


def main(argv):
    chosen, options = arguments(argv)
    try:
        kernel = vm.available()
    except vm.Unavailable as missing:
        print(f"skipped: these tests need {missing}")
        return vm.SKIPPED
    if os.environ.get("KP_SANITIZE"):
        print("skipped: sanitizers in software emulation take too long")
        return vm.SKIPPED
    task = {"suites": {name: words for name, words in suites.known().items() if not chosen.suites or name in chosen.suites},
            "alone": suites.ALONE, "jobs": chosen.jobs, "options": options,
            "again": 0 if os.environ.get("KP_RERUN") == "0" else flaky.MOST}
    env = {"KUBE_PROXY": os.path.abspath(BINARY), "PYTHONPATH": ROOT / "tools", "LAB_SLACK": os.environ.get("LAB_SLACK", "4"),
           "KP_SOURCE": os.environ.get("KP_SOURCE", "manifests"), "KP_IN_VM": "1"}
    print(f"kernel {kernel.release}, program {env['KUBE_PROXY']}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kp-vm-") as folder:
        report = Report(pathlib.Path(folder))
        try:
            done = vm.run(["/usr/bin/python3", HERE / "inside.py", folder, json.dumps(task)], folder, env=env,
                          seconds=SECONDS, silence=SILENCE_S, tell=report.hear)
        except vm.Broken as broken:
            report.lost()
            print(broken)
            return 1
        report.summary()
        sys.stderr.write(done.stderr)
        return 1 if done.returncode or report.failed() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
