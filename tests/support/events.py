"""A pytest plugin: tells what becomes of each test as soon as it is known, and can run one test alone.

Writes one JSON object a line to the file descriptor EVENTS_FD: {"id": node id, "test": its short name, "event": "begins"}, and
{"id": ..., "test": ..., "event": "ends", "outcome": "passed", "failed", "skipped" or "xfailed", "seconds": 1.2, "text": "..."}.
With ONLY_CASE in the environment, only the test with that node id runs; an id that has odd characters needs no quoting there.
"""

import json
import os

_fd = int(os.environ["EVENTS_FD"])
_parts = []  # of the running test: set-up, call, tear-down


def _tell(nodeid, event, **more):
    os.write(_fd, json.dumps({"id": nodeid, "test": _short(nodeid), "event": event, **more}).encode() + b"\n")


def pytest_collection_modifyitems(config, items):
    only = os.environ.get("ONLY_CASE")
    if only:
        others = [item for item in items if item.nodeid != only]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.nodeid == only]


def pytest_runtest_logstart(nodeid):
    _parts.clear()
    _tell(nodeid, "begins")


def pytest_runtest_logreport(report):
    _parts.append(report)


def pytest_runtest_logfinish(nodeid):
    outcome = next((name for name in ("failed", "skipped", "passed") if any(part.outcome == name for part in _parts)), "failed")
    if outcome == "skipped" and any(hasattr(part, "wasxfail") for part in _parts):
        outcome = "xfailed"
    texts = [_text(part) for part in _parts if part.outcome == outcome and part.longrepr]
    _tell(nodeid, "ends", outcome=outcome, seconds=round(sum(part.duration for part in _parts), 2), text="\n".join(texts))


def _text(report):
    if report.skipped:
        return report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
    sections = "".join(f"\n----- {name}\n{text}" for name, text in report.sections)
    return report.longreprtext + sections


def _short(nodeid):
    return nodeid.rpartition("::")[2] if "[" not in nodeid else nodeid.partition("::")[2]
