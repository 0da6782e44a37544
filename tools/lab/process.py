"""A program that a test starts, asks to end, kills and starts again."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess

from lab.wait import wait_for

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def end_with_parent():
    """Runs in the child before exec: it is killed when this process dies, however it dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """One program with its log. Starting it again adds to the same log."""

    def __init__(self, name, log):
        self.name = name
        self.log = log
        self._process = None

    def launch(self, argv, env=None):
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent)

    @property
    def pid(self):
        return self._process.pid

    def running(self):
        return self._process is not None and self._process.poll() is None

    def stop(self, seconds=30.0):
        """Asks it to end (SIGTERM) and returns its exit code; kills it when it does not."""
        return self._end(signal.SIGTERM, seconds)

    def kill(self):
        """Ends it without warning (SIGKILL)."""
        return self._end(signal.SIGKILL, 30.0)

    def kill_all(self):
        """The same, and the programs that it has started go with it, as when a container is killed."""
        children = self.children()
        code = self.kill()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return code

    def children(self):
        """The programs that it has started and that still run."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has just ended
                state, parent = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
                if int(parent) == self.pid and state != "Z":
                    found.append(int(path.parent.name))
        return found

    def log_text(self):
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def _end(self, number, seconds):
        if self.running():
            self._process.send_signal(number)
            try:
                wait_for(lambda: self._process.poll() is not None, f"{self.name} ends", seconds)
            finally:
                if self._process.poll() is None:
                    self._process.kill()
                    self._process.wait()
        return self._process.returncode if self._process else None
