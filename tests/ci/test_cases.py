"""tests/support/cases.py: what is run again, what is not, and what becomes of the suite."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from ci import flaky

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "support" / "cases.py"
FAKE = pathlib.Path(__file__).resolve().with_name("fake_gtest.py")


class Suite:
    """A suite in a folder of its own, run by cases.py."""

    def __init__(self, folder):
        self.folder = folder

    def argv(self, kind, *words):
        return [sys.executable, "-B", str(CASES), "--suite", "a/suite", kind, *map(str, words)]

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if name not in ("KP_RERUN", "ONLY_CASE", "EVENTS_FD")}
        return {**kept, "KP_FLAKY_DIR": str(self.folder / "flaky"), **more}

    def gtest_argv(self, status=0, **cases):
        told = {"status": status, "cases": {name.replace("__", "."): ways.split() for name, ways in cases.items()}}
        (self.folder / "cases.json").write_text(json.dumps(told), encoding="utf-8")
        return self.argv("gtest", sys.executable, FAKE, self.folder / "cases.json")

    def gtest(self, status=0, env=None, **cases):
        return self.run(self.gtest_argv(status, **cases), env or {})

    def pytest(self, text, *options):
        (self.folder / "test_it.py").write_text(text, encoding="utf-8")
        return self.run(self.argv("pytest", self.folder / "test_it.py", *options))

    def end_when_it_hangs(self, argv):
        """Starts it, and sends SIGTERM to all its processes that can be reached by their group, as `timeout` does."""
        wrapper = subprocess.Popen(argv, env=self.environment(), stdout=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 120
        while not (self.folder / "hangs").exists():
            assert time.monotonic() < deadline and wrapper.poll() is None
            time.sleep(0.05)
        os.killpg(wrapper.pid, signal.SIGTERM)
        return wrapper.wait(120)

    def ran(self, case):
        path = self.folder / f"ran-{case}"
        return len(path.read_text(encoding="utf-8")) if path.exists() else 0

    def flaky(self):
        return {one["case"]: one["text"] for one in flaky.notes(self.folder / "flaky")}

    def run(self, argv, more=None):
        done = subprocess.run(argv, cwd=self.folder, env=self.environment(**(more or {})), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.output = done.stdout
        return done.returncode


@pytest.fixture
def suite(tmp_path):
    return Suite(tmp_path)


def test_a_suite_that_passes_runs_once(suite):
    assert suite.gtest(A__One="ok", A__Two="skipped") == 0
    assert (suite.ran("A.One"), suite.flaky()) == (1, {})


def test_a_case_that_passes_alone_is_flaky(suite):
    assert suite.gtest(A__One="failed ok", A__Two="ok") == 0, suite.output
    assert (suite.ran("A.One"), suite.ran("A.Two")) == (2, 1)
    assert "A.One says failed" in suite.flaky()["A.One"] and "A.Two" not in suite.flaky()["A.One"]
    assert "=== Flaky: A.One" in suite.output


def test_a_case_that_fails_alone_has_failed(suite):
    assert suite.gtest(A__One="failed", A__Two="failed ok") == 1
    assert (suite.ran("A.One"), list(suite.flaky())) == (2, ["A.Two"])


def test_a_case_that_is_skipped_alone_has_not_passed(suite):
    assert suite.gtest(A__One="failed skipped") == 1


def test_more_than_three_are_no_accident(suite):
    assert suite.gtest(A__One="failed ok", A__Two="failed ok", A__Three="failed ok") == 0
    assert suite.gtest(B__One="failed ok", B__Two="failed ok", B__Three="failed ok", B__Four="failed ok") == 1
    assert suite.ran("B.One") == 1 and "too many" in suite.output


def test_after_a_crash_the_others_run(suite):
    assert suite.gtest(A__One="ok", A__Two="crash ok", A__Three="ok", A__Four="crash ok") == 0, suite.output
    assert [suite.ran(f"A.{name}") for name in ("One", "Two", "Three", "Four")] == [1, 2, 1, 2]
    assert list(suite.flaky()) == ["A.Four", "A.Two"]


def test_what_crashes_alone_has_failed(suite):
    assert suite.gtest(A__One="crash", A__Two="ok") == 128 + signal.SIGSEGV
    assert (suite.ran("A.One"), suite.ran("A.Two")) == (2, 1)


def test_an_end_without_a_word_is_a_crash(suite):
    assert suite.gtest(A__One="exit", A__Two="failed ok") == 1
    assert suite.ran("A.Two") == 2 and list(suite.flaky()) == ["A.Two"]


def test_what_a_sanitizer_reports_stays(suite):
    assert suite.gtest(A__One="sanitizer ok") == 1
    assert suite.ran("A.One") == 1


def test_a_program_that_fails_without_a_failing_case_stays_failed(suite):
    assert suite.gtest(status=23, A__One="ok") == 23
    assert suite.ran("A.One") == 1


def test_skipped_stays_skipped(suite):
    assert suite.gtest(status=77, A__One="ok") == 77


def test_a_program_that_is_not_there_is_said(suite):
    assert suite.run(suite.argv("gtest", suite.folder / "nothing")) == 1
    assert "nothing cannot be run: No such file" in suite.output


def test_it_can_be_switched_off(suite):
    assert suite.gtest(env={"KP_RERUN": "0"}, A__One="failed ok") != 0
    assert suite.ran("A.One") <= 1


def test_a_signal_reaches_the_program_and_nothing_runs_again(suite):
    assert suite.end_when_it_hangs(suite.gtest_argv(A__One="hang ok")) == 128 + signal.SIGTERM
    assert suite.ran("A.One") == 1 and not suite.flaky()


CLEANS_UP = """
import pathlib, signal, time, pytest
FOLDER = pathlib.Path(__file__).parent
signal.signal(signal.SIGTERM, signal.default_int_handler)
@pytest.fixture
def world():
    yield
    time.sleep(0.5)  # a second signal would end this
    (FOLDER / "cleaned").touch()
def test_a(world):
    (FOLDER / "hangs").touch()
    time.sleep(600)
"""


def test_pytest_a_signal_to_all_lets_the_suite_clean_up(suite):
    (suite.folder / "test_it.py").write_text(CLEANS_UP, encoding="utf-8")
    assert suite.end_when_it_hangs(suite.argv("pytest", suite.folder / "test_it.py")) == 128 + signal.SIGTERM
    assert (suite.folder / "cleaned").exists()


FAILS_ONCE = """
import pathlib
def first(name):
    path = pathlib.Path(__file__).with_name("ran-" + name)
    path.write_text((path.read_text() if path.exists() else "") + "x")
    return len(path.read_text()) == 1
"""


def test_pytest_a_case_that_passes_alone_is_flaky(suite):
    assert suite.pytest(FAILS_ONCE + "def test_a():\n    assert not first('a')\ndef test_b():\n    assert first('b')\n") == 0, suite.output
    assert (suite.ran("a"), suite.ran("b")) == (2, 1)
    assert "assert not first('a')" in suite.flaky()["test_it.py::test_a"]


def test_pytest_a_case_that_fails_alone_has_failed(suite):
    assert suite.pytest("def test_a():\n    assert False\n") == 1
    assert suite.flaky() == {}


def test_pytest_ids_may_have_odd_characters(suite):
    odd = ["a b/*?;$(id)", "x[1]::y -k 'no' \"", "tests/\u00e4.py::new\nline"]
    text = "def test_a(v):\n    assert v == 'plain' or not first(v.encode().hex())\n"
    parameters = f"import pytest\n@pytest.mark.parametrize('v', {[*odd, 'plain']!r})\n"
    assert suite.pytest(FAILS_ONCE + parameters + text) == 0, suite.output
    assert [suite.ran(one.encode().hex()) for one in odd] == [2, 2, 2] and len(suite.flaky()) == 3


def test_pytest_the_options_hold_for_the_second_run(suite):
    (suite.folder / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--mode')\n", encoding="utf-8")
    text = "def test_a(request):\n    assert request.config.getoption('--mode') == 'x' and not first('a')\n"
    assert suite.pytest(FAILS_ONCE + text, "--mode", "x") == 0, suite.output
    assert len(suite.flaky()) == 1


def test_pytest_what_a_fixture_does_wrong_counts(suite):
    text = "import pytest\n@pytest.fixture\ndef f():\n    assert not first('f')\n    yield\n    assert not first('t')\ndef test_a(f): pass\n"
    assert suite.pytest(FAILS_ONCE + text) == 1  # alone it fails in its tear-down
    assert (suite.ran("f"), suite.ran("t")) == (2, 1)


def test_pytest_more_than_three_are_no_accident(suite):
    assert suite.pytest(FAILS_ONCE + "".join(f"def test_{n}():\n    assert not first('{n}')\n" for n in range(4))) == 1
    assert suite.ran("0") == 1


def test_pytest_that_cannot_run_has_failed(suite):
    assert suite.pytest("def test_a(): pass\n", "--no-such-option") == 4
    assert suite.pytest("this is no Python\n") == 2
    assert suite.pytest("import os, signal\ndef test_a():\n    os.kill(os.getpid(), signal.SIGKILL)\n") == 128 + signal.SIGKILL


def test_pytest_skipped_stays_skipped(suite):
    assert suite.pytest("import pytest\ndef test_a():\n    pytest.exit('no root', returncode=77)\n") == 77
