"""tests/suites.txt: rows, costs, and what is measured."""

import pytest

from ci import table

TEXT = """\
# a table

build-tests    build   always  60/600  *
src/*          unit    always  40      src
tests/vm       vm      turn    480     ipvs,tests/vm
"""


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "suites.txt"
    made.write_text(TEXT, encoding="utf-8")
    return made


def test_rows(path):
    build, units, vm = table.read(path)
    assert build.is_target and not build.is_test and (build.warm, build.cold) == (60, 600)
    assert units.has("src/source/api") and not units.has("tests/src/x") and not units.runs_alone
    assert vm.runs_alone and vm.places() == ["src/backend/ipvs", "tests/vm"]


def test_seconds(path):
    assert table.seconds(table.read(path)) == 60 + 20 + 480
    assert table.seconds(table.read(path), cold=True) == 600 + 20 + 480


@pytest.mark.parametrize("line", ["a/b unit always 5", "a/b unit never 5 *", "a/b unit always 1.5 *", "a/b unit always 5/0 *"])
def test_what_is_wrong_is_said_with_its_line(path, line):
    path.write_text(TEXT + line + "\n", encoding="utf-8")
    with pytest.raises(table.Wrong, match="line 6: "):
        table.read(path)


def test_measured_costs_are_written_in_place():
    text = table.with_costs(TEXT, {"src/*": 9.2, "tests/vm": 1480.0, "build-tests": 70, "unknown": 5})
    assert text == """\
# a table

build-tests    build   always  70/600  *
src/*          unit    always  10      src
tests/vm       vm      turn    1480    ipvs,tests/vm
"""


def test_the_table_of_this_tree_can_be_read():
    assert {row.group for row in table.read()} == set(table.CLASSES)
