"""Options and the one cluster that all rows share."""

import os
import pathlib
import signal
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "behaviour"), str(ROOT / "tests" / "support")]
sys.dont_write_bytecode = True

import controlplane  # noqa: E402
import lab  # noqa: E402
import world as world_module  # noqa: E402

SKIPPED = 77  # what ctest takes for "skipped"
WORLD = pytest.StashKey()


def pytest_addoption(parser):
    group = parser.getgroup("behaviour")
    group.addoption("--mode", default="iptables", help="the proxy mode under test")
    group.addoption("--variant", default="nft", choices=["nft", "legacy"], help="which iptables the node has")
    group.addoption("--binary", default=os.environ.get("KUBE_PROXY", str(ROOT / "build" / "kube-proxy")),
                    help="the kube-proxy under test; \"original\" is the real one, which reads no folder")
    group.addoption("--source", default="manifests", choices=["manifests", "api", "stand-in"],
                    help="where the proxy's objects are: a folder, a control plane, or what stands in for one")
    group.addoption("--show-rules", action="store_true", help="print the rules of both nodes when a row fails")


def pytest_sessionstart(session):
    if session.config.option.collectonly:
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended from outside, we still clean up
    source = controlplane if session.config.option.source == "api" else lab
    missing = source.missing_capabilities()
    if missing:
        pytest.exit("skipped, missing: " + ", ".join(missing), returncode=SKIPPED)


def chosen_scenarios(session):
    """The scenarios of the rows that this run has."""
    params = (item.callspec.params for item in session.items if hasattr(item, "callspec"))
    return list({one["scenario"].name: one["scenario"] for one in params if "scenario" in one}.values())


@pytest.fixture(scope="session")
def world(request):
    option = request.config.option
    binary = controlplane.built().path("kube-proxy") if option.binary == "original" else option.binary
    if not os.access(binary, os.X_OK):
        pytest.exit(f"no such program: {binary}", returncode=2)
    made = world_module.World(binary, lab.Mode(option.mode, option.variant), chosen_scenarios(request.session), option.source)
    request.config.stash[WORLD] = made
    yield made
    del request.config.stash[WORLD]
    made.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    made = item.config.stash.get(WORLD, None)
    if report.failed and made:
        for daemon in made.daemons:
            report.sections.append((f"log of {daemon.node}", "\n".join(daemon.log_text().splitlines()[-20:])))
            if item.config.option.show_rules:
                report.sections.append((f"rules of {daemon.node}", made.mode.rules(made.cluster, daemon.node)))
