"""What runs, in which order, and what is left out."""

import pytest

from ci import plan, table
from ci.plan import Facts

MINUTE = 60


def row(suite, group="turn", cost=60, label="kernel", touched="tests/x", cold=None):
    return table.Row(suite, label, group, cost, cold or cost, tuple(touched.split(",")))


def facts(changed=(), commits=0, **ages):
    return Facts(None if changed is None else frozenset(changed), {name.replace("__", "/"): age for name, age in ages.items()}, commits)


def names(rows):
    return [one.suite for one in rows]


def test_a_change_touches_a_suite_by_its_folder_its_mode_or_any_file():
    assert row("a/b", touched="tests/kernel").is_touched({"tests/kernel/test_api.py"})
    assert not row("a/b", touched="tests/kernel").is_touched({"tests/kernel2/x", "src/plan/plan.cpp"})
    assert row("a/b", touched="tests/x,userspace").is_touched({"src/relay/tcp.cpp"})
    assert row("a/b", touched="tools/lab/vm.py").is_touched({"tools/lab/vm.py"})
    assert row("a/b", touched="*").is_touched({"README.md"}) and not row("a/b", touched="*").is_touched(set())


def test_where_nobody_knows_what_changed_everything_counts_as_touched():
    assert row("a/b").is_touched(None)


def test_touched_suites_come_first_then_those_that_passed_longest_ago():
    rows = [row("a/new"), row("a/old"), row("a/never"), row("a/touched", touched="src/net")]
    ordered = plan.order(rows, facts(["src/net/cidr.cpp"], a__new=1, a__old=9, a__touched=0))
    assert names(ordered) == ["a/touched", "a/never", "a/old", "a/new"]


@pytest.mark.parametrize("count", [1, 2, 7, 12, 33])
def test_each_commit_begins_elsewhere_among_equals(count):
    rows = [row(f"a/{number}") for number in range(count)]
    firsts = [plan.order(rows, facts(commits=commit))[0].suite for commit in range(100, 100 + count)]
    assert sorted(firsts) == sorted(names(rows))
    assert names(plan.order(rows, facts(commits=5))) == names(plan.order(rows, facts(commits=5)))


def test_a_suite_begins_only_if_it_is_over_before_minute_55():
    rows = [row("a/long", cost=500), row("a/short", cost=100)]
    assert names(plan.in_turn(rows, facts(), 40 * MINUTE).run) == ["a/long", "a/short"]
    later = plan.in_turn(rows, facts(), 50 * MINUTE)
    assert names(later.run) == ["a/short"]
    assert later.left_out == {"a/long": "about 9 minutes, which do not fit before minute 55"}
    assert not plan.in_turn(rows, facts(), 54 * MINUTE).run


def test_a_slow_machine_and_a_cold_one_begin_less():
    rows = [row("a/b", cost=200, cold=500)]
    assert plan.in_turn(rows, facts(), 50 * MINUTE).run
    assert not plan.in_turn(rows, facts(), 50 * MINUTE, slowness=2).run
    assert not plan.in_turn(rows, facts(), 50 * MINUTE, cold=True).run


def test_what_shares_the_cores_takes_half_the_time():
    rows = [row(f"a/{number}", cost=300) for number in range(9)]
    assert len(plan.in_turn(rows, facts(), 40 * MINUTE).run) == 5
    alone = [row(f"a/{number}", cost=300, label="conformance") for number in range(9)]
    assert len(plan.in_turn(alone, facts(), 40 * MINUTE).run) == 3


def test_every_suite_gets_its_turn_when_its_passes_are_recorded():
    rows, ages = [row(f"a/{number}", cost=300) for number in range(9)], {}
    for commit in range(4):
        run = plan.in_turn(rows, Facts(frozenset(), dict(ages), commit), 45 * MINUTE).run
        ages = {suite: age + 1 for suite, age in ages.items()} | {one.suite: 1 for one in run}
    assert len(ages) == 9


def test_stages_are_what_one_command_runs():
    rows = [row("setup"), row("build"), row("src/*", label="unit"), row("tests/cli"), row("control-plane"),
            row("tests/c/one", label="conformance"), row("tests/c/two", label="conformance"), row("tests/b")]
    assert [names(stage) for stage in plan.stages(rows)] == [
        ["setup"], ["build"], ["src/*", "tests/cli"], ["control-plane"], ["tests/c/one", "tests/c/two"], ["tests/b"]]


def test_a_batch_is_a_few_minutes_long():
    assert names(plan.batch([row("a/1", cost=400), row("a/2", cost=200), row("a/3")])) == ["a/1", "a/2"]
    assert names(plan.batch([row("a/1", cost=900), row("a/2")])) == ["a/1"]
    assert names(plan.batch([row("fuzz"), row("a/2")])) == ["fuzz"]


def test_slowness_is_what_the_stages_so_far_have_shown():
    assert plan.slowness([]) == 1
    assert plan.slowness([([row("a/1", cost=100), row("a/2", cost=100)], 150), ([row("a/3", cost=100, label="vm")], 250)]) == 2
    assert plan.slowness([([row("a/1", cost=2)], 900)]) == 5
