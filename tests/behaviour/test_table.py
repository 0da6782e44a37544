"""Runs the table; see README.md."""

import collections

import pytest
import table


EVERY_ROW = [
    pytest.param(scenario, index, row, id=f"{scenario.name}/{step.name}/{row.name}",
                 marks=[pytest.mark.xfail(reason=step.gap, strict=True)] if step.gap else [])
    for scenario in table.SCENARIOS
    for index, step in enumerate(scenario.steps)
    for row in step.rows
]


@pytest.mark.parametrize(("scenario", "index", "row"), EVERY_ROW)
def test_row(world, scenario, index, row):
    for need in filter(None, (scenario.needs, row.needs)):
        if need not in world.mode.features:
            pytest.skip(f"{world.mode.name} has no {need}")
    world.go(scenario, index)
    world.check(row.in_mode(world.mode.name))


def covered_cases():
    """The cases of test/e2e/network, each with the ids of its rows."""
    cases = collections.defaultdict(list)
    for param in EVERY_ROW:
        scenario, _, row = param.values
        for case in {*scenario.e2e, *row.e2e}:
            cases[case].append(param.id)
    return cases


def test_every_required_case_has_a_row():
    missing = sorted(table.REQUIRED - covered_cases().keys())
    assert not missing, f"cases of test/e2e/network without a row: {missing}"


def test_row_ids_are_unique():
    ids = [param.id for param in EVERY_ROW]
    assert len(ids) == len(set(ids))
