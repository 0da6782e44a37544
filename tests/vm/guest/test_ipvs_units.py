"""The unit tests that need IPVS and dummy devices, and are skipped on most machines."""

import os
import pathlib
import subprocess

import pytest

# Beside the program that is tested.
BUILD = pathlib.Path(os.environ["KUBE_PROXY"]).resolve().parent


@pytest.mark.parametrize(("program", "which"), [
    ("kernel_test", "*Ipvs*:Ipset*:Link*:Address*:Netlink*"),
    ("backend_ipvs_test", "IpvsProxier.*:*IpvsHistories.*"),
])
def test_unit(program, which):
    if not (BUILD / program).exists():
        pytest.skip(f"{program} is not beside the program under test")
    done = subprocess.run([BUILD / program, f"--gtest_filter={which}", "--gtest_brief=1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIPPED" not in done.stdout
