"""Runs the table; see README.md."""

import collections

import lab
import pytest
import rows
import table


def param(scenario, index, row):
    step = scenario.steps[index]
    return pytest.param(scenario, index, row, id=f"{scenario.name}/{step.name}/{row.name}",
                        marks=[pytest.mark.xfail(reason=step.gap, strict=True)] if step.gap else [])


# In the order in which the world goes from step to step.
EVERY_ROW = [
    param(scenario, index, row)
    for group in rows.side_by_side(table.SCENARIOS)
    for index, scenarios in rows.stages(group)
    for scenario in scenarios
    for row in scenario.steps[index].rows
]


def needs(scenario, row):
    return set(filter(None, (scenario.needs, row.needs)))


@pytest.mark.parametrize(("scenario", "index", "row"), EVERY_ROW)
def test_row(world, scenario, index, row):
    missing = needs(scenario, row) - world.mode.features
    if missing:
        pytest.skip(f"{world.mode.name} has no {', '.join(missing)}")
    world.go(scenario, index)
    world.check(row.in_mode(world.mode.name))


def covered_cases(mode):
    """The cases of test/e2e/network that have a row in this mode."""
    cases = set()
    for param in EVERY_ROW:
        scenario, _, row = param.values
        if needs(scenario, row) <= mode.features:
            cases |= {*scenario.e2e, *row.e2e}
    return cases


@pytest.mark.parametrize("mode", lab.MODES)
def test_every_required_case_has_a_row(mode):
    missing = sorted(table.REQUIRED - covered_cases(lab.Mode(mode)))
    assert not missing, f"cases of test/e2e/network without a row in mode {mode}: {missing}"


def front_ends(scenario, index):
    """Every address and node port that a Service of a step has."""
    for one in scenario.objects(index):
        if isinstance(one, dict) and one["kind"] == "Service":
            spec = one["spec"]
            yield from (address for address in spec.get("clusterIPs", []) + spec.get("externalIPs", []) if address != "None")
            yield from (ingress["ip"] for ingress in one["status"]["loadBalancer"].get("ingress", []))
            yield from (port["nodePort"] for port in spec["ports"] if "nodePort" in port)


def test_scenarios_that_share_a_cluster_share_no_address_and_no_node_port():
    for group in rows.side_by_side(table.SCENARIOS):
        for index, _ in rows.stages(group):
            taken = collections.Counter(one for scenario in group for one in set(front_ends(scenario, index)))
            assert [one for one, count in taken.items() if count > 1] == []


def test_row_ids_are_unique():
    ids = [param.id for param in EVERY_ROW]
    assert len(ids) == len(set(ids))
