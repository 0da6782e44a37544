#!/usr/bin/env python3
"""When this machine stood still: a control for tests that take a late packet for a lost one.

On each processor a thread sleeps for a moment, again and again, and notes when it was woken late. They are in a process
of their own, so that no work of the test holds them up: only the machine can.
"""

import json
import os
import subprocess
import sys
import threading
import time

# TCP sends again what was not acknowledged for 200 ms, and the acknowledgement may have waited for 40 ms of its own accord.
STOOD_STILL_S = 0.15
PERIOD_S = 0.01
LATE_S = 0.03


class Stalls:
    """Watches from its construction to the end of the process that made it. Times are those of CLOCK_MONOTONIC."""

    def __init__(self):
        self._process = subprocess.Popen([sys.executable, "-B", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._process.stdout.readline()  # every processor is watched

    def so_far(self):
        """For each processor a list of the times in which it stood still: (since, to)."""
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def stood_still(stalls, begun, ended):
    """Whether one of the processors stood still between the two times, for as long as makes TCP send again."""
    return any(sum(max(0.0, min(to, ended) - max(since, begun)) for since, to in times) >= STOOD_STILL_S for times in stalls)


class Watcher:
    """One processor."""

    def __init__(self, processor):
        self.stalls = []
        self.seen = 0.0
        self._processor = processor
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        os.sched_setaffinity(0, {self._processor})  # of this thread only
        self.seen = time.monotonic()
        while True:
            due = time.monotonic() + PERIOD_S
            time.sleep(PERIOD_S)
            now = time.monotonic()
            if now - due > LATE_S:
                self.stalls.append((due, now))
            self.seen = now

    def wait_seen(self, moment):
        """Waits until everything of the time before that moment is noted."""
        while self.seen <= moment:
            time.sleep(PERIOD_S / 2)


def main():
    watchers = [Watcher(processor) for processor in sorted(os.sched_getaffinity(0))]
    tell(watchers)
    for _ in sys.stdin:
        tell(watchers)
    os._exit(0)  # the threads are asleep


def tell(watchers):
    asked = time.monotonic()
    for watcher in watchers:
        watcher.wait_seen(asked)
    print(json.dumps([watcher.stalls for watcher in watchers]), flush=True)


if __name__ == "__main__":
    main()
