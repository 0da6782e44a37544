#!/usr/bin/env python3
"""Runs a test program, and then once more each case of it that failed, alone.

    cases.py [--suite NAME] [--flaky FOLDER] gtest PROGRAM [ARGUMENT...]
    cases.py [--suite NAME] [--flaky FOLDER] pytest ARGUMENT...

A case that passes alone counts as passed: it is flaky, which is printed with its first output and kept for the report of the
whole run (tools/ci/flaky.py). More than three failing cases are no accident: then nothing is run again. Of a GoogleTest program
that crashes, the case that was running has failed, and those that it has not come to are run. What a sanitizer reports is
never an accident, and neither is a program that fails though none of its cases did.

Status: that of the first run, but 0 if every failing case has passed alone. KP_RERUN=0 in the environment: run once only.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))

from ci import flaky  # noqa: E402
from lab.process import end_with_parent  # noqa: E402

SKIPPED = 77
BROKEN = 1
PYTEST = [sys.executable, "-B", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]


@dataclasses.dataclass
class First:
    """How the first run ended: its status, and {case: what it printed} of those that failed."""

    status: int
    failed: dict


class Child:
    """The program that runs now. Signals that come from outside are passed on to it, and to what it has started."""

    def __init__(self):
        self._process = None
        self.ended_by = None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._pass_on)

    def run(self, argv, hear=None, **options):
        """Its exit status. `hear` gets each line that it prints; they are printed as well."""
        if self.ended_by:
            return 128 + self.ended_by
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if hear else {}
        # In a process group of its own: so it hears each signal once, from here.
        try:
            self._process = subprocess.Popen(argv, preexec_fn=end_with_parent, process_group=0, stdin=subprocess.DEVNULL,
                                             **output, **options)
        except OSError as error:
            print(f"{argv[0]} cannot be run: {error.strerror}")
            return BROKEN
        if self.ended_by:  # meanwhile
            os.killpg(self._process.pid, self.ended_by)
        if hear:
            reader = threading.Thread(target=_copy, args=(self._process.stdout, hear), daemon=True)
            reader.start()
        status = self._process.wait()
        if hear:
            reader.join(10)  # what it has left behind may hold the pipe open
        return 128 - status if status < 0 else status

    def _pass_on(self, number, _frame):
        self.ended_by = number
        if self._process and self._process.returncode is None:
            os.killpg(self._process.pid, number)


def _copy(pipe, hear):
    for line in pipe:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        hear(line.decode(errors="replace"))


class GtestLog:
    """What a GoogleTest program prints, by case."""

    BEGINS = re.compile(r"\[ RUN      \] (\S+)")
    ENDS = re.compile(r"\[(?:       OK|  FAILED |  SKIPPED) \] ([^\s,]+)")

    SANITIZER = re.compile(r"(ERROR|WARNING): \w+Sanitizer: |: runtime error: ")

    def __init__(self):
        self.texts = {}  # case: its lines
        self.ended = {}  # case: the line that told its end
        self.running = None
        self.sanitizer = False  # has one reported something?

    def hear(self, line):
        self.sanitizer |= bool(self.SANITIZER.search(line))
        if match := self.BEGINS.search(line):
            self.running = match[1]
            self.texts[self.running] = []
        if self.running:
            self.texts[self.running].append(line)
            match = self.ENDS.search(line)
            if match and match[1] == self.running:
                self.ended[self.running] = match[0]
                self.running = None

    def failed(self):
        return {case: self.text(case) for case, line in self.ended.items() if "FAILED" in line}

    def text(self, case):
        return "".join(self.texts.get(case, []))


class Gtest:
    def __init__(self, child, argv, scratch):
        self._child, self._argv, self._scratch = child, argv, scratch

    def first(self):
        """All cases; after a crash those that are left, until all have run or too many have failed."""
        failed, done, status = {}, [], 0
        while True:
            now, log, whole = self._run(f"*-{':'.join(done)}" if done else None)
            status = status or now or (BROKEN if whole is None else 0)
            if log.sanitizer or self._child.ended_by:
                return First(status, {})
            if whole is not None:
                failed |= {case: log.text(case) or "\n".join(texts) for case, texts in whole.items()}
                return First(status, failed)
            failed |= log.failed()
            if not log.running:
                return First(status, {})
            print(f"=== {log.running} has ended the program, with status {now}", flush=True)
            failed[log.running] = f"{log.text(log.running)}(the program ended here, with status {now})\n"
            done += [*log.ended, log.running]
            if len(failed) > flaky.MOST:
                return First(status, failed)

    def again(self, case):
        status, log, whole = self._run(case)
        return status == 0 and whole is not None and "OK" in log.ended.get(case, "")

    def _run(self, chosen):
        """The status, the log, and {case: messages} of what failed, by the program's own report; None if it has written none."""
        report = self._scratch / "report.json"
        report.unlink(missing_ok=True)
        argv = [*self._argv, f"--gtest_output=json:{report}"]
        if chosen:
            flags = self._scratch / "flags"  # not an argument, as those may not be long
            flags.write_text(f"--gtest_filter={chosen}\n", encoding="utf-8")
            argv.append(f"--gtest_flagfile={flags}")
        log = GtestLog()
        status = self._child.run(argv, hear=log.hear)
        return status, log, _gtest_failures(report)


def _gtest_failures(report):
    try:
        suites = json.loads(report.read_text(encoding="utf-8", errors="replace"))["testsuites"]
    except (OSError, ValueError):
        return None
    return {f"{case['classname']}.{case['name']}": [failure["failure"] for failure in case["failures"]]
            for suite in suites for case in suite["testsuite"] if case.get("failures")}


class Pytest:
    def __init__(self, child, argv, scratch):
        self._child, self._argv, self._scratch = child, argv, scratch

    def first(self):
        status, outcomes = self._run({})
        # Any other status: interrupted, wrong usage, no tests. No case is to blame for that.
        failed = {} if status != 1 else {case: event["text"] for case, event in outcomes.items() if event["outcome"] == "failed"}
        return First(status, failed)

    def again(self, case):
        status, outcomes = self._run({"ONLY_CASE": case})
        return status == 0 and case in outcomes and outcomes[case]["outcome"] == "passed"

    def _run(self, more):
        path = f"{os.environ['PYTHONPATH']}:{HERE}" if os.environ.get("PYTHONPATH") else str(HERE)
        with open(self._scratch / "events", "w+", encoding="utf-8") as events:
            env = {**os.environ, "PYTHONPATH": path, "EVENTS_FD": str(events.fileno()), **more}
            status = self._child.run([*PYTEST, "-p", "events", *self._argv], env=env, pass_fds=[events.fileno()])
            events.seek(0)
            told = [json.loads(line) for line in events]
        return status, {event["id"]: event for event in told if event["event"] == "ends"}


KINDS = {"gtest": Gtest, "pytest": Pytest}


def run(program, child, suite, place):
    first = program.first()
    if first.status in (0, SKIPPED) or not first.failed or child.ended_by:
        return first.status
    if len(first.failed) > flaky.MOST:
        print(f"=== {suite}: {len(first.failed)} or more cases failed: too many to be run again", flush=True)
        return first.status
    passed = [case for case in first.failed if passes_alone(program, suite, case)]
    for case in passed:
        flaky.note(place, suite, case, first.failed[case])
        print("\n".join([f"=== Flaky: {case}: it failed, and passed alone; first it said:", *flaky.cut(first.failed[case])]), flush=True)
    return 0 if len(passed) == len(first.failed) else first.status


def passes_alone(program, suite, case):
    print(f"=== {suite}: {case} failed: once more, alone", flush=True)
    passed = program.again(case)
    print(f"=== {suite}: {case} {'passed' if passed else 'failed'} alone", flush=True)
    return passed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="tests", help="the name that reports give it")
    parser.add_argument("--flaky", default="build/flaky", help="the folder for flaky cases, if KP_FLAKY_DIR names none")
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("argv", nargs=argparse.REMAINDER)
    return parser.parse_args()


def main():
    chosen = arguments()
    if os.environ.get("KP_RERUN") == "0":
        argv = PYTEST + chosen.argv if chosen.kind == "pytest" else chosen.argv
        os.execvp(argv[0], argv)
    child = Child()
    with tempfile.TemporaryDirectory(prefix="kp-cases-") as scratch:
        program = KINDS[chosen.kind](child, chosen.argv, pathlib.Path(scratch))
        status = run(program, child, chosen.suite, flaky.folder(chosen.flaky))
    return 128 + child.ended_by if child.ended_by else status


if __name__ == "__main__":
    sys.exit(main())
