"""Runs a test program, once for each mutant, and says which mutants it notices.

A mutant is tried only with the suites that reach it. A program that crashes, or takes far longer than it does
without a mutant, has noticed.
"""

import concurrent.futures
import fnmatch
import os
import resource
import signal
import subprocess
import threading
import time

from lab.process import end_with_parent

MEMORY = 4 << 30  # a mutant may never stop to allocate
LEAST_SECONDS = 20.0
TIMES_SLOWER = 20


class Unfit(Exception):
    """The tests do not pass without a mutant."""


class Tests:
    def __init__(self, executable, root, folder):
        self._executable = str(executable)
        self._root = root
        self._folder = folder
        self._running = {}  # pid -> Popen
        self._lock = threading.Lock()
        self._ended = False
        self._limit = None

    def suites(self):
        done = subprocess.run([self._executable, "--gtest_list_tests"], cwd=self._root, env=self._environment(),
                              stdout=subprocess.PIPE, text=True, check=True)
        names = [line.split("#")[0].strip() for line in done.stdout.splitlines() if not line.startswith(" ")]
        return [n for n in names if n.endswith(".")]

    def record(self, pattern, tell):
        """Runs each suite like `pattern` without a mutant. Returns number of a mutant -> the suites that reach it."""
        reached, begun = {}, time.monotonic()
        suites = [s for s in self.suites() if fnmatch.fnmatch(s[:-1], pattern)]
        for index, suite in enumerate(suites):
            tell(f"run {suite[:-1]} without a mutant: {index} of {len(suites)} suites")
            for number in self._numbers_reached(suite, tell):
                reached.setdefault(number, []).append(suite)
        self._limit = max(LEAST_SECONDS, TIMES_SLOWER * (time.monotonic() - begun))
        return reached

    def _numbers_reached(self, suite, tell):
        file = self._folder / "reached"
        file.unlink(missing_ok=True)
        code, output = self._run([suite], {"KP_MUTANT_REACHED": str(file)}, None)
        numbers = [int(n) for n in file.read_text().split()] if file.exists() else []
        if code != 0 and numbers:
            raise Unfit(f"{suite[:-1]} fails without any mutant:\n{output}")
        if code != 0:
            tell(f"{suite[:-1]} fails, but reaches no mutant")
        return numbers

    def notice(self, mutant, suites):
        """Does a test fail with this mutant?"""
        code, _ = self._run(suites, {"KP_MUTANT": str(mutant.number)}, self._limit)
        return code != 0

    def end(self):
        """Kills what still runs; what would start does not."""
        with self._lock:
            self._ended = True
            for process in self._running.values():
                _kill(process)

    def _environment(self, **more):
        # A seed makes random tests the same each time.
        return {**os.environ, "RC_PARAMS": "seed=1", "TMPDIR": str(self._folder), **more}

    def _run(self, suites, environment, seconds):
        command = [self._executable, "--gtest_fail_fast", "--gtest_brief=1",
                   "--gtest_filter=" + ":".join(f"{s}*" for s in suites)]
        process = self._start(command, self._environment(**environment))
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            _kill(process)
            process.communicate()
            return None, "too slow"
        finally:
            with self._lock:
                self._running.pop(process.pid, None)

    def _start(self, command, environment):
        with self._lock:
            if self._ended:
                raise KeyboardInterrupt
            process = subprocess.Popen(command, cwd=self._root, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                       start_new_session=True, preexec_fn=_limits)
            self._running[process.pid] = process
            return process


def _limits():
    """Runs in the child before exec."""
    end_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _kill(process):
    """Kills a program and whatever it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def try_all(tests, mutants, reached, jobs, tell):
    """The numbers of the mutants that the tests notice, `jobs` at a time."""
    noticed = set()
    todo = [m for m in mutants if m.number in reached]
    tell(f"0 of {len(todo)} mutants tried")
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(tests.notice, m, reached[m.number]): m for m in todo}
        try:
            for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
                if future.result():
                    noticed.add(futures[future].number)
                tell(f"{count} of {len(todo)} mutants tried, {count - len(noticed)} survive")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            tests.end()
            raise
    return noticed
