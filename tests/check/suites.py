"""tests/suites.txt has one row for each test that ctest knows, no row for anything else, and its classes keep their promises:
what always runs fits in its minutes, and nothing long runs in turn.

The tests are those of the build folder, which cmake has written; KP_BUILD names it, build/ by default. ctest itself is not asked:
this runs beneath a ctest, whose log a second one in the same folder would spoil.
"""

import os
import re
import sys
from pathlib import Path

import tree

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from ci import table  # noqa: E402

ALWAYS_WARM_S = 25 * 60
ALWAYS_COLD_S = 40 * 60
TURN_S = 600
NAME = r"(?:\[=*\[(.*?)\]=*\]|\"?([^\s\"()]+)\"?)"
TEST = re.compile(rf"^add_test\({NAME}", re.MULTILINE)
PROPERTIES = re.compile(rf"^set_tests_properties\({NAME} PROPERTIES(.*)$", re.MULTILINE)
FOLDER = re.compile(r'^subdirs\("(.*)"\)$', re.MULTILINE)
LABELS = re.compile(r'\bLABELS "([^"]*)"')


def known_tests(folder):
    """{test: its labels}, from what cmake has written for ctest."""
    text = (folder / "CTestTestfile.cmake").read_text(encoding="utf-8")
    found = {match[1] or match[2]: set() for match in TEST.finditer(text)}
    for match in PROPERTIES.finditer(text):
        if labels := LABELS.search(match[3]):
            found[match[1] or match[2]] = set(labels[1].split(";"))
    for match in FOLDER.finditer(text):
        found |= known_tests(folder / match[1])
    return found


def check_tests(rows, tests):
    for test in tests:
        having = [row for row in rows if row.has(test)]
        if len(having) != 1:
            yield f"{test}: {len(having)} rows have it ({', '.join(row.suite for row in having) or 'add one'}), and one should"
        for row in having:
            if row.label not in tests[test]:
                yield f"{row.suite}: {test} has no label {row.label}"


def check_row(row, tests, makefile):
    if row.is_target and not re.search(rf"^([\w-]+ )*{re.escape(row.suite)}( [\w-]+)*:", makefile, re.MULTILINE):
        yield f"{row.suite}: the Makefile has no such target"
    if not row.is_target and not any(map(row.has, tests)):
        yield f"{row.suite}: there is no such test"
    if row.group == "turn" and row.warm > TURN_S:
        yield f"{row.suite}: {row.warm} s are too long for a turn; what takes more than {TURN_S} s is run by hand"
    for place in row.places():
        if place != "*" and not (tree.root() / place).exists():
            yield f"{row.suite}: touched by {place}, which is not there"


def check_always(rows):
    always = [row for row in rows if row.group == "always"]
    for kind, seconds, most in (("warm", table.seconds(always), ALWAYS_WARM_S), ("cold", table.seconds(always, cold=True), ALWAYS_COLD_S)):
        if seconds > most:
            yield f"what always runs takes {seconds / 60:.1f} minutes {kind}, and may take {most // 60}: take something out"


def check_twice(rows):
    names = [row.suite for row in rows]
    return [f"{name}: it has two rows" for name in sorted(set(names)) if names.count(name) > 1]


def main():
    build = Path(os.environ.get("KP_BUILD") or tree.root() / "build")
    if not (build / "CTestTestfile.cmake").exists():
        tree.skip("there is no build folder that knows the tests: make configures one")
    try:
        rows = table.read(tree.root() / "tests" / "suites.txt")
    except table.Wrong as wrong:
        tree.finish([f"tests/suites.txt: {wrong}"], "")
    tests, makefile = known_tests(build), tree.text(tree.root() / "Makefile")
    findings = [*check_tests(rows, tests), *check_twice(rows), *check_always(rows)]
    findings += [finding for row in rows for finding in check_row(row, tests, makefile)]
    tree.finish(findings, f"{len(rows)} rows of tests/suites.txt have all {len(tests)} tests")


main()
