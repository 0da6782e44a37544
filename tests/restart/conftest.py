"""One cluster with traffic for all tests of a run."""

import os
import pathlib
import signal
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support")]
sys.dont_write_bytecode = True

import lab  # noqa: E402
import sandbox  # noqa: E402
from scene import Scene  # noqa: E402

SCENE = pytest.StashKey()


def pytest_addoption(parser):
    group = parser.getgroup("restart")
    group.addoption("--mode", choices=lab.MODES, default="iptables", help="of the proxy")
    group.addoption("--variant", choices=["nft", "legacy"], default="nft", help="which iptables is behind the name")
    group.addoption("--seed", type=int, default=0, help="of the random moments; 0 draws one, and prints it")
    group.addoption("--rounds", type=int, default=6, help="how often the proxy is ended at a random moment")


def pytest_configure(config):
    sandbox.require(config.getoption("--variant"))


def pytest_sessionstart(session):
    if session.config.option.collectonly:
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended from outside, we still clean up
    missing = lab.missing_capabilities()
    if missing:
        pytest.exit("skipped, missing: " + ", ".join(missing), returncode=77)


@pytest.fixture
def variant(request):
    return request.config.getoption("--variant")


@pytest.fixture
def mode(request, variant):
    return lab.Mode(request.config.getoption("--mode"), variant)


@pytest.fixture
def scene(request, mode):
    with Scene(sandbox.BINARY, mode) as made:
        request.node.stash[SCENE] = made
        yield made


@pytest.fixture
def seed(request):
    chosen = request.config.getoption("--seed") or int.from_bytes(os.urandom(3))
    print(f"--seed={chosen}")
    return chosen


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    made = item.stash.get(SCENE, None)
    if report.failed and report.when == "call" and made:
        report.sections.append(("log of kube-proxy", "\n".join(made.daemon.log_text().splitlines()[-40:])))
