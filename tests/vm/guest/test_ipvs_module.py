"""The module ip_vs: loaded when it is needed, and missed in words when it cannot be had.

Alone in the machine, as a module is everybody's.
"""

import os
import pathlib
import subprocess

import pytest
import recorded
from lab.wait import wait_for

BLOCK = pathlib.Path("/etc/modprobe.d/no-ipvs.conf")  # for the program
KERNELS_OWN = pathlib.Path("/proc/sys/kernel/modprobe")  # what the kernel calls when a module is asked for


@pytest.fixture
def node():
    """No module, and nothing that needs it."""
    subprocess.run(["sh", "-c", "for one in $(lsmod | sed -n 's/^\\(ip_vs_[a-z]*\\) .*/\\1/p') ip_vs; do rmmod $one; done"], check=False)
    assert not loaded()
    made = recorded.Node("seed-nginx-clusterip")
    loader = KERNELS_OWN.read_text()
    yield made
    made.close()
    KERNELS_OWN.write_text(loader)
    BLOCK.unlink(missing_ok=True)
    subprocess.run(["modprobe", "ip_vs"], check=True)


def loaded():
    return os.path.exists("/sys/module/ip_vs")


def test_a_module_that_is_not_loaded_gets_loaded(node):
    node.start()
    assert loaded()
    assert node.difference("ipvs.txt") == "same"


def test_a_kernel_without_the_module_ends_the_proxy(node):
    BLOCK.write_text("install ip_vs /bin/false\n")
    KERNELS_OWN.write_text("/bin/false")
    node.launch()
    wait_for(lambda: not node.daemon.running(), "kube-proxy ends", 10)
    assert node.daemon.stop() == 1
    assert "can't use the IPVS proxier: " in node.daemon.log_text()
    assert not loaded()
