"""Mode nftables on an older kernel, Debian 12's: the tests that write tables, run there."""

import os
import pathlib
import subprocess

# Beside the program that is tested.
TESTS = pathlib.Path(os.environ["KUBE_PROXY"]).resolve().parent / "backend_nftables_test"


def test_tables_are_written_and_adopted():
    done = subprocess.run([TESTS, "--gtest_filter=NftablesProxier.*:Sticky.*:*Histories.*", "--gtest_brief=1"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIPPED" not in done.stdout
