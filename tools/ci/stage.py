"""Runs one command of CI: shows what it prints, reads it, and ends it when it takes too long."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

from ci import logs, table

CLEAN_UP_S = 30  # between the request to end and the end


@dataclasses.dataclass
class Done:
    """What became of a command."""

    name: str
    status: int
    seconds: float
    ended: bool  # it took too long, and was ended
    console: logs.Console
    outputs: dict  # test: the lines that it printed

    def failed_tests(self):
        return self.console.having("failed")

    def count_broken(self):
        """What broke without a failing test: a build, a command that ended early."""
        if self.ended:
            return 1 + len(self.console.broken_builds())
        if self.status and not self.failed_tests():
            return max(1, len(self.console.broken_builds()))
        return len(self.console.broken_builds())

    def skips(self):
        for test, lines in self.outputs.items():
            yield from logs.skips_inside(test, lines)
        for test in self.console.having("skipped"):
            yield f"{test}: {logs.reason(self.outputs.get(test, []))}"
        yield from self.console.said

    def failures(self):
        """Lines for the report."""
        if self.ended:
            running = ", ".join(self.console.running()) or "no test"
            yield f"{self.name}: ended after {self.seconds:.0f} s, as there was no more time; {running} was running"
        for test in self.failed_tests():
            yield self.console.results[test].line
        yield from (f"== {name}: FAILED" for name in self.console.broken)
        if self.status and not self.ended and not self.failed_tests() and not self.console.broken:
            yield f"{self.name}: ended with status {self.status}"
        for test in [*self.failed_tests(), *(self.console.running() if self.ended else [])]:
            yield f"--- the end of {test}"
            yield from logs.end(self.outputs.get(test, []))


def run(name, argv, seconds, root=table.ROOT, environment=None):
    """Runs it for at most that long."""
    began, wall, console = time.monotonic(), time.time(), logs.Console()
    print(f"=== {name}: {' '.join(_shown(argv))}", flush=True)
    # A session of its own, so that all that it starts can be told to end.
    process = subprocess.Popen(argv, cwd=root, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    reader = threading.Thread(target=_copy, args=(process.stdout, console), daemon=True)
    reader.start()
    try:
        ended = _wait(process, seconds)
    except BaseException:  # we are to end ourselves
        _end(process)
        raise
    reader.join(10)  # what it has left behind may hold the pipe open
    return Done(name, process.returncode, time.monotonic() - began, ended, console, _outputs(root, wall))


def _shown(argv):
    return [word if len(word) < 200 else word[:200] + "..." for word in map(str, argv)]


def _copy(pipe, console):
    for line in pipe:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        console.hear(line.decode(errors="replace").rstrip("\n"))


def _wait(process, seconds):
    """Waits for its end; was it ended by us?"""
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        _end(process)
        return True


def _end(process):
    """Ends it and all that it has started: first asks, and lets them clean up, also when make or ctest itself is gone."""
    until = time.monotonic() + CLEAN_UP_S
    with contextlib.suppress(ProcessLookupError):  # none is left
        os.killpg(process.pid, signal.SIGTERM)
        while time.monotonic() < until:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _outputs(root, since):
    """What tests printed, from the logs that ctest has written meanwhile; one that was ended leaves a .tmp."""
    found = {}
    for path in pathlib.Path(root).glob("build*/Testing/Temporary/LastTest.log*"):
        if path.stat().st_mtime >= since - 1:
            found |= logs.outputs(path.read_text(encoding="utf-8", errors="replace"))
    return found
