"""tests/vm: failing tests are run again in the same boot. No machine is needed for that: inside.py is a program like others."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

from ci import flaky

ROOT = pathlib.Path(__file__).resolve().parents[2]

FAILS = """
import pathlib
import pytest
@pytest.mark.parametrize("v", range({tests}))
def test_a(v):
    path = pathlib.Path(__file__).with_name(f"ran-{{v}}")
    path.write_text((path.read_text() if path.exists() else "") + "x")
    assert len(path.read_text()) > {times} or v >= {failing}, "the first words"
"""


@pytest.fixture
def runner(tmp_path, monkeypatch):
    monkeypatch.setenv("KP_FLAKY_DIR", str(tmp_path / "flaky"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("vm_run", ROOT / "tests" / "vm" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(runner, folder, again=3, **suites):
    """The report on suites, each given as (tests, how many of them fail, how often)."""
    arguments = {}
    for name, (tests, failing, times) in suites.items():
        (folder / name).mkdir()
        (folder / name / f"test_{name}.py").write_text(FAILS.format(tests=tests, failing=failing, times=times), encoding="utf-8")
        arguments[name] = [str(folder / name)]
    task = {"suites": arguments, "alone": ["alone"], "jobs": 2, "options": [], "again": again}
    done = subprocess.run([sys.executable, "-B", ROOT / "tests" / "vm" / "inside.py", folder, json.dumps(task)], check=True,
                          stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "tools")})
    report = runner.Report(folder)
    for line in done.stdout.splitlines():
        report.hear(line)
    report.summary()
    return report


def test_what_passes_alone_is_flaky(runner, tmp_path, capsys):
    report = run(runner, tmp_path, alone=(2, 1, 1), other=(3, 2, 1))
    assert not report.failed() and not report.running
    assert report.outcomes == {"alone": {"passed": 1, "failed": 0, "flaky": 1}, "other": {"passed": 1, "failed": 0, "flaky": 2}}
    assert [one["suite"] for one in flaky.notes(tmp_path / "flaky")] == ["tests/vm alone", "tests/vm other", "tests/vm other"]
    assert "the first words" in flaky.notes(tmp_path / "flaky")[0]["text"]
    assert "=== Flaky: test_a[0]" in capsys.readouterr().out


def test_what_fails_alone_has_failed(runner, tmp_path):
    report = run(runner, tmp_path, other=(2, 1, 9))
    assert report.failed() and not flaky.notes(tmp_path / "flaky")
    assert (tmp_path / "other" / "ran-0").read_text() == "xx"


def test_more_than_three_are_not_run_again(runner, tmp_path):
    assert run(runner, tmp_path, other=(4, 4, 1)).failed()
    assert (tmp_path / "other" / "ran-0").read_text() == "x"


def test_it_can_be_switched_off(runner, tmp_path):
    assert run(runner, tmp_path, again=0, other=(2, 1, 1)).failed()
