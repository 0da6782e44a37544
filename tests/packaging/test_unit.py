"""packaging/kube-proxy.service, as systemd reads it."""

import configparser
import re
import subprocess

import pytest
import roots

UNIT = roots.REPOSITORY / "packaging" / "kube-proxy.service"
# Tenths of systemd-analyze's "exposure level", 0 to 100; the unit has 32, one without any protection 96.
MOST_EXPOSURE = 35


@pytest.fixture
def unit(tmp_path):
    """A copy that starts the program which is being tested."""
    text = UNIT.read_text().replace("ExecStart=/usr/bin/kube-proxy ", f"ExecStart={roots.BINARY} ")
    path = tmp_path / UNIT.name
    path.write_text(text)
    return path


def test_systemd_accepts_it(unit):
    roots.need(systemd_analyze="systemd")
    # A mistake such as an unknown key is only a line on stderr.
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_is_hardened(unit):
    roots.need(systemd_analyze="systemd")
    roots.run("systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSURE}", unit)


def parse():
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str
    parsed.read(UNIT)
    return parsed


def test_it_may_do_what_a_pod_may_and_set_up_its_node():
    capabilities = set(parse()["Service"]["CapabilityBoundingSet"].replace("CAP_", "").split())
    assert capabilities == roots.KEPT_CAPABILITIES | {"SYS_RESOURCE", "SYS_MODULE"}


def test_the_filter_lets_it_put_on_its_own():
    lines = [line.partition("=")[2] for line in UNIT.read_text().splitlines() if line.startswith("SystemCallFilter=")]
    assert "seccomp" in lines[0].split()


def test_it_comes_back_and_leaves_rules_alone():
    parsed = parse()
    service = parsed["Service"]
    assert service["Restart"] == "always"
    assert parsed["Unit"]["StartLimitIntervalSec"] == "0"
    assert not [key for key in service if key.startswith("ExecStop")]
    config = re.search(r"--config=(\S+)", service["ExecStart"])[1]
    assert parsed["Unit"]["ConditionPathExists"] == config


def test_the_example_configuration_is_accepted(tmp_path):
    written = tmp_path / "written.yaml"
    config = roots.REPOSITORY / "packaging" / "config.yaml"
    roots.run(roots.BINARY, f"--config={config}", f"--write-config-to={written}")
    assert "clusterCIDR: 10.244.0.0/16" in written.read_text()
