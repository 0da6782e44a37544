"""Reads tests/suites.txt: every suite with its class and its cost."""

import dataclasses
import fnmatch
import math
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATH = ROOT / "tests" / "suites.txt"

CLASSES = ("always", "turn", "hand")
# What makes up a mode, for suites that are about one.
MODES = {mode: [f"src/backend/{mode}"] for mode in ("iptables", "nftables", "ipvs", "userspace")}
MODES["userspace"].append("src/relay")
BUILDS = ("setup", "build")  # labels of what is no test
ALONE = ("conformance", "vm")  # labels of tests that do not share the cores: RUN_SERIAL in cmake's words
TOGETHER = 2  # others run two at a time


class Wrong(Exception):
    """The table cannot be read; the text says where and why."""


@dataclasses.dataclass(frozen=True)
class Row:
    suite: str
    label: str
    group: str  # always, turn or hand
    warm: int  # seconds
    cold: int  # seconds where nothing is cached
    touched_by: tuple

    @property
    def is_target(self):
        """A target of the Makefile; otherwise tests of ctest."""
        return "/" not in self.suite

    @property
    def is_test(self):
        return self.label not in BUILDS

    @property
    def runs_alone(self):
        return self.is_target or self.label in ALONE

    def has(self, test):
        return not self.is_target and fnmatch.fnmatchcase(test, self.suite)

    def places(self):
        """The folders and files that it is about."""
        return [place for word in self.touched_by for place in MODES.get(word, [word])]

    def is_touched(self, changed):
        """Does a change of these files concern it? None: nobody knows what has changed."""
        if changed is None:
            return True
        return any(place == "*" or path == place or path.startswith(place + "/") for place in self.places() for path in changed)


def read(path=PATH):
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    return [_row(line.split(), number) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]


def _row(words, number):
    if len(words) != 5:
        raise Wrong(f"line {number}: a row has five columns: suite, label, class, cost, touched by")
    suite, label, group, cost, touched = words
    if group not in CLASSES:
        raise Wrong(f"line {number}: {group} is no class; there are {', '.join(CLASSES)}")
    if not re.fullmatch(r"[1-9]\d*(/[1-9]\d*)?", cost):
        raise Wrong(f"line {number}: {cost} is no cost: write seconds, or seconds warm/seconds cold")
    warm, _, cold = cost.partition("/")
    return Row(suite, label, group, int(warm), int(cold or warm), tuple(touched.split(",")))


def seconds(rows, cold=False):
    """How long these take on two cores, one stage after the other."""
    costs = [(row, row.cold if cold else row.warm) for row in rows]
    return sum(cost if row.runs_alone else cost / TOGETHER for row, cost in costs)


def with_costs(text, measured):
    """The text of the table with other warm costs: measured is {suite: seconds}."""
    return "\n".join(_with_cost(line, measured) for line in text.split("\n"))


def _with_cost(line, measured):
    match = re.fullmatch(r"((\S+) +\S+ +\S+ +)(\d+)((?:/\d+)?)( +)(\S+ *)", line)
    if line.startswith("#") or not match or match[2] not in measured:
        return line
    cost = f"{max(1, math.ceil(measured[match[2]]))}{match[4]}"
    width = len(match[3] + match[4] + match[5])
    return f"{match[1]}{cost:{width - 1}} {match[6]}"
