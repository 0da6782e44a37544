"""One control plane for the whole run, and two nodes called node1: one with our proxy, one with the original."""

import os
import pathlib
import signal
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support")]
sys.dont_write_bytecode = True

import controlplane  # noqa: E402
from node import Node  # noqa: E402

SKIPPED = 77  # what ctest takes for "skipped"
NODES = pytest.StashKey()


def pytest_addoption(parser):
    group = parser.getgroup("conformance")
    group.addoption("--binary", default=os.environ.get("KUBE_PROXY", str(ROOT / "build" / "kube-proxy")),
                    help="the kube-proxy under test; \"original\" is the real one")


def pytest_sessionstart(session):
    if session.config.option.collectonly:
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended from outside, we still clean up
    missing = controlplane.missing_capabilities()
    if missing:
        pytest.exit("skipped, missing: " + ", ".join(missing), returncode=SKIPPED)


@pytest.fixture(scope="session")
def session_plane():
    with controlplane.ControlPlane(controlplane.built()) as made:
        yield made


@pytest.fixture
def plane(session_plane):
    """The control plane, holding only what it has made itself. A test that failed half-way may have left it down."""
    if not session_plane.apiserver.running():
        session_plane.restart_apiserver()
    session_plane.wipe()
    return session_plane


def node_fixture(name, binary_of):
    """A node for the whole session; each test finds it without rules, and leaves it without a proxy."""

    @pytest.fixture(scope="session", name=f"session_{name}")
    def for_session(request, session_plane):
        binary = binary_of(request.config.option)
        if not os.access(binary, os.X_OK):
            pytest.exit(f"no such program: {binary}", returncode=2)
        with Node(session_plane, name, binary) as made:
            request.config.stash.setdefault(NODES, []).append(made)
            yield made

    @pytest.fixture(name=name)
    def for_test(request):
        made = request.getfixturevalue(f"session_{name}")
        yield made
        made.clear()

    return for_session, for_test


def original_binary(_):
    return controlplane.built().path("kube-proxy")


def our_binary(option):
    return original_binary(option) if option.binary == "original" else option.binary


@pytest.fixture(scope="session")
def our_binary_path(request):
    return our_binary(request.config.option)


session_ours, ours = node_fixture("ours", our_binary)
session_original, original = node_fixture("original", original_binary)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if report.failed and report.when == "call":
        for one in item.config.stash.get(NODES, []):
            report.sections.append((f"log of {one.name}", "\n".join(one.log().splitlines()[-40:])))
