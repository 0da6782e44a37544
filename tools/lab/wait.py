"""Waiting for a condition, with a deadline."""

import os
import time

SLACK = float(os.environ.get("LAB_SLACK", "1"))


class NotInTime(Exception):
    """A condition did not become true before its deadline."""


def wait_for(condition, what, seconds=30.0, every=0.02):
    """Calls condition() until it returns something true, and returns that. `seconds` is multiplied by SLACK."""
    deadline = time.monotonic() + seconds * SLACK
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise NotInTime(f"{what}: not within {seconds * SLACK:g} s")
        time.sleep(every)
