import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from lab import vm  # noqa: E402

BINARY = os.environ.get("KUBE_PROXY", str(ROOT / "build" / "kube-proxy"))


def pytest_configure(config):
    """Ends the run with 77, saying why, where no machine can be had."""
    try:
        vm.available()
    except vm.Unavailable as missing:
        pytest.exit(f"skipped: this suite needs {missing}", returncode=77)
    if os.environ.get("KP_SANITIZE"):
        pytest.exit("skipped: sanitizers in software emulation take too long", returncode=77)


@pytest.fixture(scope="session")
def guest(tmp_path_factory):
    """guest(argv, files=...): runs a program in a fresh machine; returns what subprocess.run returns, and the folder
    that it ran in."""

    def run(argv, files=None, **options):
        folder = tmp_path_factory.mktemp("vm")
        env = {"KUBE_PROXY": BINARY, "RECORDINGS": ROOT / "tests" / "recordings", "PYTHONPATH": ROOT / "tools"}
        done = vm.run(argv, folder, files=files, env=env, **options)
        print(done.stdout, done.stderr, sep="\n")  # pytest shows it if the test fails
        done.folder = folder
        return done

    return run
