"""A whole run, with commands that only pretend; and one command for real."""

import sys

import pytest

from ci import flaky, logs, plan, report, run, stage, table
from ci.plan import Facts
from ci.record import Entry

ROWS = """\
setup-test       setup        always  1       *
build-tests      build        always  60/600  *
src/*            unit         always  10      *
control-plane    build        always  5       *
tests/c/one      conformance  always  10      *
tests/c/two      conformance  turn    10      tests/c
tests/kernel     kernel       turn    10      tests/kernel
tests/long       kernel       turn    590     tests/long
soak             soak         hand    600     tests/soak
"""
FINE = {"tests/c/one": "Passed", "tests/c/two": "Passed", "tests/kernel": "Passed", "tests/long": "Passed", "src/a": "Passed",
        "src/b": "Passed"}


class Pretender:
    """Takes the place of stage.run: tests end as told, commands with the status told, and each takes a while."""

    def __init__(self):
        self.tests, self.status, self.clock, self.takes, self.ran, self.ended = dict(FINE), {}, 0, 10, [], None

    def run(self, name, argv, seconds, environment=None):
        self.ran.append(name)
        self.clock += self.takes
        console = logs.Console()
        for number, test in enumerate(self._chosen(argv)):
            console.hear(f"      Start {number}: {test}")
            console.hear(f"{number}/9 Test #{number}: {test} ....{self.tests[test]}   5.00 sec")
        failed = bool(console.having("failed"))
        outputs = {test: ["first words", "last words"] for test in console.results}
        return stage.Done(name, self.status.get(name, 8 if failed else 0), self.takes, name == self.ended, console, outputs)

    def _chosen(self, argv):
        pattern = argv[argv.index("-R") + 1] if "-R" in argv else None
        return [test for test in self.tests if pattern and run.re.match(pattern, test)]


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = Pretender()
    (tmp_path / "suites.txt").write_text(ROWS, encoding="utf-8")
    made.rows = table.read(tmp_path / "suites.txt")
    made.flaky = tmp_path / "flaky"
    monkeypatch.setattr(run, "FLAKY", made.flaky)
    monkeypatch.setattr(stage, "run", made.run)
    monkeypatch.setattr(run, "go_is_built", lambda: False)
    monkeypatch.setattr(run.Run, "elapsed", lambda self: made.clock)
    return made


def finish(world, record=None, **ages):
    facts = Facts(frozenset(["tests/kernel/x.py"]), {name.replace("__", "/"): age for name, age in ages.items()}, 7)
    made = run.Run(0, world.rows, record or {}, facts)
    made.all()
    return made, report.text(made)


def test_all_of_it(world):
    made, text = finish(world)
    assert world.ran == ["setup-test", "build-tests", "src/*", "control-plane", "tests/c/one", "kernel (2 suites)", "tests/c/two"]
    assert (made.passed, made.failed) == (6, 0)
    assert text.endswith("\n6 passed, 0 failed")
    assert made.suites["src/*"] == {"outcome": "passed", "seconds": 10}
    assert "    10 s  src/*\n" in text and "=== Skipped\nnothing" in text


def test_what_is_left_out_is_listed_with_its_last_pass(world):
    world.takes = 7 * 60
    made, text = finish(world, {"tests/long": Entry("0123456789ab", "2026-11-01", 500), "soak": Entry("feedfeedfeed", "2026-10-01", 1)},
                        tests__long=12)
    assert "tests/long: about 50 minutes, which do not fit before minute 55; last passed at 0123456789ab (2026-11-01), 12 commits ago" in text
    assert "soak: by hand: make soak; last passed at feedfeedfeed (2026-10-01), which is not part of this history" in text
    assert made.failed == 0 and "tests/long" not in made.suites


def test_a_failing_test(world):
    world.tests["src/b"] = "***Failed"
    made, text = finish(world)
    assert (made.passed, made.failed) == (5, 1)
    assert "Test #1: src/b ....***Failed" in text and "--- the end of src/b\n    first words\n    last words" in text
    assert "src/* (FAILED)" in text and made.suites["src/*"]["outcome"] == "failed"


def test_a_skipped_test_and_its_reason(world):
    world.tests["tests/kernel"] = "***Skipped"
    made, text = finish(world)
    assert "=== Skipped\ntests/kernel: first words" in text
    assert (made.passed, made.failed) == (5, 0) and made.suites["tests/kernel"]["outcome"] == "skipped"


def test_a_broken_build_counts_once_and_its_tests_do_not_run(world):
    world.status["build-tests"] = 2
    made, text = finish(world)
    assert made.failed == 1 and made.passed == 0 and "src/*" not in world.ran
    assert "src/*: build-tests has not passed" in text and "build-tests: ended with status 2" in text


def test_a_stage_that_hangs_has_failed(world):
    world.ended = "src/*"
    made, text = finish(world)
    assert made.failed == 1 and "src/*: ended after 10 s, as there was no more time" in text
    assert made.suites["src/*"]["outcome"] == "failed"


def test_a_control_plane_that_cannot_be_had_is_no_failure(world):
    world.status["control-plane"] = 77
    made, text = finish(world)
    assert made.failed == 0 and "tests/c/one: control-plane has not passed" in text
    assert made.suites["tests/c/one"]["outcome"] == "skipped"


def test_no_go_build_begins_late(world, monkeypatch):
    world.clock = 30 * 60
    made, text = finish(world)
    assert "control-plane" not in world.ran and "control-plane: no Go build begins after minute 30" in text
    monkeypatch.setattr(run, "go_is_built", lambda: True)
    world.clock = 30 * 60
    finish(world)
    assert "control-plane" in world.ran


def test_what_always_runs_and_has_no_time_has_failed(world):
    world.clock = plan.END_S
    made, text = finish(world)
    assert not world.ran and made.failed == 3 and "src/* always runs, and has not: no time is left" in text


def test_flaky_cases_are_told_and_more_than_three_fail(world):
    for number in range(3):
        flaky.note(world.flaky, "src/net", f"A.B{number}", "expected 1\nfound 2")
    made, text = finish(world)
    assert made.failed == 0 and "=== Flaky\nsrc/net: A.B0\n    expected 1\n    found 2\nsrc/net: A.B1" in text
    flaky.note(world.flaky, "src/net", "A.B3", "x")
    made, text = finish(world)
    assert made.failed == 1 and "4 cases are flaky" in text


def test_a_command_for_real(tmp_path, capfdbinary):
    log = tmp_path / "build" / "Testing" / "Temporary" / "LastTest.log"
    log.parent.mkdir(parents=True)
    program = f"print('1/1 Test #1: a/b ....   Passed  0.50 sec'); open({str(log)!r}, 'w').write('1/1 Testing: a/b\\nOutput:\\n---\\nhello\\n')"
    done = stage.run("it", [sys.executable, "-c", program], 300, root=tmp_path)
    assert (done.status, done.ended, done.console.having("passed"), done.outputs) == (0, False, ["a/b"], {"a/b": ["hello"]})


def test_what_a_command_has_started_may_clean_up(tmp_path):
    """As a suite does beneath a make that ends at once."""
    (tmp_path / "suite").write_text("trap 'sleep 1; touch cleaned; exit' TERM; touch ready; while :; do sleep 0.1; done\n", encoding="utf-8")
    for seconds in (1, 10, 60):  # until it is ready
        done = stage.run("it", ["sh", "-c", "sh ./suite & sleep 600"], seconds, root=tmp_path)
        if (tmp_path / "ready").exists():
            break
    assert done.ended and (tmp_path / "cleaned").exists()


def test_a_command_that_hangs_is_ended_with_all_that_it_has_started(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "CLEAN_UP_S", 1)
    stubborn = "trap '' TERM; echo '  Start 1: a/b'; sleep 600 & wait; sleep 600"
    for seconds in (1, 10, 60):  # until it has come to hang
        done = stage.run("it", ["sh", "-c", stubborn], seconds, root=tmp_path)
        if done.console.running():
            break
    assert done.ended and done.status < 0 and done.console.running() == ["a/b"] and done.count_broken() == 1
    assert "a/b was running" in next(iter(done.failures()))
