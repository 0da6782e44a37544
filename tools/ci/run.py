"""The run itself: what is to run always, then in turn, stage by stage; then the report.

A stage that fails is remembered and the next one still runs: one run should tell everything that is wrong.
"""

import datetime
import os
import re
import signal
import subprocess
import sys
import time
import traceback

from ci import flaky, history, plan, record, report, stage, table

SKIPPED = 77
LEAST_S = 20  # with less time than that before the end, nothing begins
FLAKY = table.ROOT / "build" / "flaky"
# Warnings are errors; -g1 is enough for stack traces.
ENVIRONMENT = {"KP_WERROR": "ON", "KP_DEBUG_INFO": "-g1", "KP_FLAKY_DIR": str(FLAKY)}
# Rows that are run in another way than their name says.
COMMANDS = {"tests/vm": ["make", "test-vm"],
            "control-plane": ["sh", "-c", f"make setup-conformance && exec {sys.executable} -B -m controlplane build"]}
GO = "control-plane"
RELEASE = "build-tests"


class Run:
    def __init__(self, began, rows=None, entries=None, facts=None):
        self._began = began
        self.rows = table.read() if rows is None else rows
        self.record = record.read() if entries is None else entries
        self.facts = facts or history.facts(history.Git(), self.record)
        self.times = []  # (stage, seconds, did it go well?)
        self.skipped, self.failures, self.flaky = [], [], []
        self.left_out = {}  # suite: why
        self.suites = {}  # suite: {"outcome", "seconds"}
        self.passed = self.failed = 0
        self._measured = []  # (rows, seconds) of stages of tests

    def elapsed(self):
        return time.time() - self._began

    def all(self):
        for rows in plan.stages(self._of("always")):
            self._begin(rows)
        self._in_turn(self._of("turn"))
        self._not_run()
        self._count_flaky()

    def results(self, git):
        return {"commit": git.head(), "uncommitted": git.uncommitted(), "date": datetime.date.today().isoformat(),
                "seconds": round(self.elapsed()), "passed": self.passed, "failed": self.failed, "suites": self.suites,
                "stages": [{"name": name, "seconds": round(seconds, 1), "passed": fine} for name, seconds, fine in self.times],
                "flaky": self.flaky, "left out": self.left_out}

    def _of(self, group):
        return [row for row in self.rows if row.group == group]

    def _in_turn(self, pending):
        while True:
            now = plan.in_turn(pending, self.facts, self.elapsed(), plan.slowness(self._measured), self._is_cold())
            if not now.run:
                self.left_out |= now.left_out
                return
            chosen = plan.batch(now.run)
            self._begin(chosen)
            pending = [row for row in pending if row not in chosen]

    def _begin(self, rows):
        """Runs those of a stage that can run now."""
        missing = {row: why for row in rows if (why := self._hindrance(row))}
        self.skipped += [f"{row.suite}: {why}" for row, why in missing.items()]
        for row in missing:
            self.suites[row.suite] = {"outcome": "skipped", "seconds": 0}
        rows = [row for row in rows if row not in missing]
        if rows and plan.END_S - self.elapsed() < LEAST_S:
            self.left_out |= {row.suite: "no time is left" for row in rows}
        elif rows:
            self._stage(rows)

    def _hindrance(self, row):
        """Why it cannot run; None if it can."""
        if row.suite == GO and not go_is_built() and self.elapsed() > plan.GO_UNTIL_S:
            return f"no Go build begins after minute {plan.GO_UNTIL_S // 60}"
        needed = [] if row.is_target else [RELEASE, GO] if row.label == "conformance" else [RELEASE]
        lacks = [suite for suite in needed if self.suites.get(suite, {}).get("outcome") in ("failed", "skipped")]
        return f"{lacks[0]} has not passed" if lacks else None

    def _stage(self, rows):
        done = stage.run(name_of(rows), command(rows), plan.END_S - self.elapsed(), environment=environment())
        unavailable = done.status == SKIPPED and rows[0].suite == GO
        broken = 0 if unavailable else done.count_broken()
        self.times.append((done.name, done.seconds, not (broken or done.failed_tests())))
        self.passed += len(done.console.having("passed"))
        self.failed += len(done.failed_tests()) + broken
        self.skipped += done.skips()
        if not unavailable:
            self.failures += done.failures()
        for row in rows:
            self.suites[row.suite] = outcome(row, done, alone=len(rows) == 1)
        if not done.ended and not rows[0].is_target:  # what builds depends on the caches
            self._measured.append((rows, done.seconds))

    def _is_cold(self):
        """Were the caches empty? The first build tells."""
        return any(row.suite == RELEASE and self.suites.get(RELEASE, {"seconds": 0})["seconds"] > (row.warm + row.cold) / 2
                   for row in self.rows)

    def _not_run(self):
        """What is for people, and what always runs and has not."""
        self.left_out |= {row.suite: f"by hand: {by_hand(row)}" for row in self._of("hand")}
        for row in self._of("always"):
            if row.suite in self.left_out:
                self.failed += 1
                self.failures.append(f"{row.suite} always runs, and has not: {self.left_out[row.suite]}")

    def _count_flaky(self):
        self.flaky = flaky.notes(FLAKY)
        if flaky.too_many(self.flaky):
            self.failed += 1
            self.failures.append(f"{len(self.flaky)} cases are flaky, and more than {flaky.MOST} fail a run: see Flaky above")


def name_of(rows):
    labels = list(dict.fromkeys(row.label for row in rows))
    return rows[0].suite if rows[0].is_target else f"{', '.join(labels)} ({len(rows)} suites)" if len(rows) > 1 else rows[0].suite


def command(rows):
    if rows[0].suite in COMMANDS:
        return COMMANDS[rows[0].suite]
    if rows[0].is_target:
        return ["make", rows[0].suite]
    # A test without a time limit of its own gets ten minutes.
    return ["ctest", "--test-dir", "build", "--output-on-failure", "--no-tests=error", "--timeout", "600", "-j", str(os.cpu_count() or 1),
            "-R", f"^({'|'.join(_pattern(row.suite) for row in rows)})$"]


def _pattern(suite):
    """A regular expression as ctest has them."""
    return re.sub(r"([.+^$()\[\]?|\\])", r"\\\1", suite).replace("*", ".*")


def environment():
    return {**ENVIRONMENT, "PYTHONPATH": str(table.ROOT / "tools")}


def outcome(row, done, alone):
    """What became of one suite in a stage."""
    if row.is_target or (alone and row.suite in COMMANDS and not any(map(row.has, done.console.results))):
        state = "passed" if done.status == 0 else "skipped" if done.status == SKIPPED else "failed"
        return {"outcome": state, "seconds": round(done.seconds, 1)}
    results = [result for test, result in done.console.results.items() if row.has(test)]
    states = {result.outcome for result in results}
    state = "failed" if "failed" in states or done.ended or not states else "passed" if "passed" in states else "skipped"
    return {"outcome": state, "seconds": round(sum(result.seconds for result in results), 1)}


def by_hand(row):
    return f"make {row.suite}" if row.is_target else f"ctest --test-dir build -R '^{_pattern(row.suite)}$'"


def go_is_built():
    asked = subprocess.run([sys.executable, "-B", "-m", "controlplane", "where"], cwd=table.ROOT, env={**os.environ, **environment()},
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return asked.returncode == 0


def main(began):
    flaky.clear(FLAKY)
    run = Run(began)
    changed = "everything, as far as is known" if run.facts.changed is None else f"{len(run.facts.changed)} files"
    print(f"=== CI: {len(run.rows)} rows in tests/suites.txt; changed since the last record: {changed}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run.all()
    except (Exception, KeyboardInterrupt):  # whatever happens, there is a report
        run.failed += 1
        run.failures.append(f"CI itself was interrupted:\n{traceback.format_exc()}")
    record.save(run.results(history.Git()))
    print(report.text(run), flush=True)
    return 0 if run.failed == 0 and run.passed > 0 else 1
