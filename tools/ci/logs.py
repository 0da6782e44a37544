"""Reads what ctest prints and what it writes to its log."""

import dataclasses
import re

# "12/40 Test #3: src/net ......   Passed    0.01 sec", "... ***Failed    0.01 sec", "...Subprocess aborted***Exception:   0.2 sec"
_RESULT = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.*(.*?) +([\d.]+) sec")
_NOT_RUN = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.*(.*\*\*\*Not Run.*)$")
_START = re.compile(r"^ *Start +\d+: (\S+)$")
_SKIPS = ("***Skipped", "***Not Run (Disabled)")
_BROKEN = re.compile(r"^== (.*): FAILED")
# Of the log.
_TEST = re.compile(r"^\d+/\d+ Testing: (\S+)$")
_OUTPUT_ENDS = "<end of output>"
_GTEST_SKIP = re.compile(r"^\[  SKIPPED \] (\S+) \(\d+ ms\)$")
_PYTEST_SKIP = re.compile(r"^SKIPPED (\[\d+\] .*)$")
END_LINES = 25


@dataclasses.dataclass(frozen=True)
class Result:
    outcome: str  # passed, failed or skipped
    seconds: float
    line: str


class Console:
    """What a stage prints, line by line."""

    def __init__(self):
        self.results = {}  # test: Result
        self.broken = []  # names of steps of make that failed
        self.said = []  # why conformance is skipped
        self._started = []

    def hear(self, line):
        if match := _START.match(line):
            self._started.append(match[1])
        elif match := _RESULT.match(line) or _NOT_RUN.match(line):
            self.results[match[1]] = Result(_outcome(match[2]), float(match[3]) if match.re is _RESULT else 0.0, line.strip())
        elif match := _BROKEN.match(line):
            self.broken.append(match[1])
        elif line.startswith("conformance: skipped"):
            self.said.append(line.strip())

    def running(self):
        """Tests that have begun and not ended."""
        return [test for test in self._started if test not in self.results]

    def having(self, outcome):
        return [test for test, result in self.results.items() if result.outcome == outcome]

    def broken_builds(self):
        return [name for name in self.broken if name.startswith("build")]


def _outcome(text):
    if any(words in text for words in _SKIPS):
        return "skipped"
    return "failed" if "***" in text else "passed"


def outputs(log):
    """{test: the lines that it printed}, from the text of a log of ctest."""
    found, test, inside = {}, None, False
    for line in log.splitlines():
        if match := _TEST.match(line):
            test, inside = match[1], False
            found[test] = []
        elif line == "Output:" and test and not inside:
            inside = True
        elif line == _OUTPUT_ENDS:
            test = None
        elif inside and test:
            found[test].append(line)
    # The first line is a row of dashes.
    return {test: lines[1:] for test, lines in found.items()}


def skips_inside(test, lines):
    """What was skipped inside of a test, each with the reason, as GoogleTest and pytest say it."""
    before = ""
    for line in lines:
        if match := _GTEST_SKIP.match(line):
            yield f"{test}: {match[1]}: {before}"
        elif match := _PYTEST_SKIP.match(line):
            yield f"{test}: {match[1]}"
        before = line


def reason(lines):
    """Why a test was skipped: its first line."""
    return lines[0] if lines else "no reason given"


def end(lines):
    return [f"    {line[:500]}" for line in lines[-END_LINES:]]
