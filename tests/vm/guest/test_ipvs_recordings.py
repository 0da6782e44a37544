"""Every recording of the real kube-proxy in mode ipvs: what ours puts into the kernel is the same; a restart writes
nothing, and what the real one left is taken over as it is."""

import pytest
import recorded
import sandbox
from writes import Writes

# The memory of the machine decides about it.
OF_THE_MACHINE = {"net.ipv4.vs.sync_qlen_max"}
ADOPTED = ["dual-stack", "external-traffic-local", "load-balancer-source-ranges", "session-affinity", "udp-sctp"]


@pytest.fixture(scope="module")
def writes():
    made = Writes()
    yield made
    made.close()


@pytest.fixture
def node(request):
    made = recorded.Node(request.param)
    yield made
    made.close()


def differences(node):
    compared = {file: node.difference(file) for file in recorded.DUMPS}
    return {file: text for file, text in compared.items() if text != "same"}


def recorded_sysctls(node):
    lines = (node.recording / "sysctl.txt").read_text().splitlines()
    return dict(line.split(" = ") for line in lines)


@pytest.mark.parametrize("node", sandbox.RECORDINGS, indirect=True)
def test_the_kernel_has_what_was_recorded_and_a_restart_writes_nothing(node, writes):
    node.start()
    assert not differences(node)
    found, expected = node.sysctls(), recorded_sysctls(node)
    assert {name: found[name] for name in found if name not in OF_THE_MACHINE} == \
        {name: value for name, value in expected.items() if name not in OF_THE_MACHINE}

    node.stop()
    writes.clear()
    node.start()
    assert writes.counts() == {}
    assert not differences(node)


@pytest.mark.parametrize("node", ADOPTED, indirect=True)
def test_what_the_real_one_left_is_taken_over(node, writes):
    node.restore()
    assert not differences(node)
    writes.clear()
    node.start()
    assert writes.counts() == {}
    assert not differences(node)


@pytest.mark.parametrize("node", ["udp-sctp"], indirect=True)
def test_the_counter_counts(node, writes):
    """Or the tests above would prove nothing."""
    writes.clear()
    node.start()
    counted = {what for _, what in writes.counts()}
    assert {"virtual_or_real_server", "set_entry_added", "set_created", "address_added", "link_made", "rule_added"} <= counted
