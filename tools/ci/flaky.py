"""Flaky cases: they failed, were run again alone at once, and passed. Each is one file of a folder, until a report reads it.

KP_FLAKY_DIR names the folder; what runs a test has a folder of its own for when it is not set.
"""

import hashlib
import json
import os
import pathlib

MOST = 3  # more failing cases than these, in one suite or among all flaky ones of a run, are no accident
LINES = 40  # of the first output, in a report


def folder(default):
    return pathlib.Path(os.environ.get("KP_FLAKY_DIR") or default)


def note(place, suite, case, text):
    """Keeps one flaky case, with what it printed when it failed."""
    place = pathlib.Path(place)
    place.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(f"{suite}\n{case}".encode()).hexdigest()[:16]
    (place / f"{name}.json").write_text(json.dumps({"suite": suite, "case": case, "text": text}), encoding="utf-8")


def notes(place):
    """[{"suite", "case", "text"}], by suite and case."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in pathlib.Path(place).glob("*.json")]
    return sorted(found, key=lambda one: (one["suite"], one["case"]))


def clear(place):
    for path in pathlib.Path(place).glob("*.json"):
        path.unlink()


def lines(found):
    """The section of a report, without its title."""
    for one in found:
        yield f"{one['suite']}: {one['case']}"
        yield from cut(one["text"])


def cut(text):
    """The end of an output, for a person to read."""
    ends = text.strip("\n").splitlines()
    if len(ends) > LINES:
        yield f"    ... {len(ends) - LINES} lines are left out here"
    yield from (f"    {line[:500]}" for line in ends[-LINES:])


def too_many(found):
    return len(found) > MOST
