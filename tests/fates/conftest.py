"""Twin nodes get the same packets, which must meet the same fates."""

import os
import pathlib
import shutil
import signal
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "fates")]
sys.dont_write_bytecode = True

import lab  # noqa: E402
from lab import tun  # noqa: E402

SKIPPED = 77  # what ctest takes for "skipped"


def pytest_addoption(parser):
    group = parser.getgroup("fates")
    group.addoption("--seed", type=int, default=0, help="of the random histories; 0 draws one, and prints it")
    group.addoption("--steps", type=int, default=40, help="how many changes a random history has")
    group.addoption("--mode", default="nftables", help="the mode that is scaled under load")
    group.addoption("--variant", default="nft", choices=["nft", "legacy"], help="which iptables the node of mode iptables has")


def pytest_sessionstart(session):
    if session.config.option.collectonly:
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended from outside, we still clean up
    missing = lab.missing_capabilities() or tun.missing()
    if not shutil.which("nft"):
        missing.append("the program nft (package nftables)")
    if missing:
        pytest.exit("skipped, missing: " + ", ".join(missing), returncode=SKIPPED)
    lab.sweep("kpf")


@pytest.fixture
def mode(request):
    return request.config.getoption("--mode")


@pytest.fixture
def seed(request):
    chosen = request.config.getoption("--seed") or int.from_bytes(os.urandom(3))
    print(f"--seed={chosen}")
    return chosen
