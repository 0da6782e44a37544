"""tests/last-passed.txt: for each suite the commit at which it last passed. `make ci-record` writes it, from the results of a run."""

import dataclasses
import json
import pathlib

from ci import table

PATH = table.ROOT / "tests" / "last-passed.txt"
RESULTS = table.ROOT / "build" / "ci" / "results.json"

_TITLE = """\
# The commit at which each suite of suites.txt last passed in CI. `make ci-record` writes this from the results of a run.
#
# suite                                   commit        date        seconds
"""


class Wrong(Exception):
    """These results cannot be recorded; the text says why."""


@dataclasses.dataclass(frozen=True)
class Entry:
    commit: str
    date: str
    seconds: int


def read(path=PATH):
    """{suite: Entry}; empty where nothing has been recorded."""
    path = pathlib.Path(path)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    words = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return {suite: Entry(commit, date, int(seconds)) for suite, commit, date, seconds in words}


def text(entries):
    rows = (f"{suite:41} {entry.commit}  {entry.date}  {entry.seconds:7}\n" for suite, entry in sorted(entries.items()))
    return _TITLE + "".join(rows)


def merged(entries, results, suites):
    """The record with what has passed in a run; without suites that there are no longer."""
    new = {suite: Entry(results["commit"][:12], results["date"], round(one["seconds"]))
           for suite, one in results["suites"].items() if one["outcome"] == "passed"}
    return {suite: entry for suite, entry in (entries | new).items() if suite in suites}


def check(results, git):
    """Raises Wrong unless what was tested is what is committed here, but for files that no test is about."""
    moved = git.changed(results["commit"], "HEAD")
    if moved is None or git.since(results["commit"]) is None:
        raise Wrong(f"the results are of commit {results['commit'][:12]}, which is not part of this history")
    telling = [path for path in sorted({*moved, *results["uncommitted"]}) if not _says_nothing(path)]
    if telling:
        raise Wrong(f"the results are of commit {results['commit'][:12]}, and not of what is here: {', '.join(telling[:5])} differ")


def _says_nothing(path):
    return path.endswith(".md") or path.startswith("docs/") or path in ("tests/last-passed.txt", "tests/suites.txt")


def load(path=RESULTS):
    path = pathlib.Path(path)
    if not path.exists():
        raise Wrong(f"there are no results: {path} is missing; bash .ci/run writes it")
    return json.loads(path.read_text(encoding="utf-8"))


def save(results, path=RESULTS):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
