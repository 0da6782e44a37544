"""Traffic of SCTP, which many kernels lack, in every mode."""

import lab
import pytest
from ground import PODS, Ground

VIP, NODE, NODE_PORT = "10.96.4.1", "172.31.0.11", 30132


@pytest.fixture(scope="module")
def ground():
    with Ground(protocols=["sctp"]) as made:
        made.put_service("sctp", VIP, protocol="SCTP", node_port=NODE_PORT)
        yield made


@pytest.fixture(scope="module", params=["iptables", "nftables", "ipvs"])
def served(request, ground):
    """A proxy of each mode in turn, once it serves the Service."""
    ground.clear()
    ground.start(mode=request.param)
    lab.wait_for(lambda: answers(ground), "the Service is served", 60)
    return ground


def answers(ground):
    assert ground.daemon.running(), ground.daemon.log_text()
    try:
        ground.connect("client1", VIP, protocol="sctp", timeout=0.3).close()
        ground.connect("ext1", NODE, NODE_PORT, protocol="sctp", timeout=0.3).close()
        return True
    except OSError:
        return False


def test_a_pod_reaches_the_service_as_itself(served):
    seen = set()
    for _ in range(20):
        with served.connect("client1", VIP, protocol="sctp") as one:
            seen.add((one.pod, one.source))
            assert one.still_works()
    assert {pod for pod, _ in seen} == set(PODS)
    assert {source for _, source in seen} == {served.cluster["client1"].ipv4}


@pytest.mark.parametrize(("client", "address", "port"), [("ext1", NODE, NODE_PORT), ("ext1", VIP, 80), ("node1", VIP, 80)])
def test_who_comes_from_outside_is_masqueraded(served, client, address, port):
    seen = set()
    for _ in range(20):
        with served.connect(client, address, port, protocol="sctp") as one:
            seen.add((one.pod, one.source))
    assert {pod for pod, _ in seen} == set(PODS)
    assert {source for _, source in seen} <= served.cluster.addresses("node1")


def test_an_association_goes_on_while_other_endpoints_change(served):
    with served.connect("client1", VIP, protocol="sctp") as kept:
        served.put_endpoints("sctp", [kept.pod], "SCTP")
        lab.wait_for(lambda: who_answers(served) == {kept.pod}, "the others are gone")
        assert kept.still_works()
        served.put_endpoints("sctp", PODS, "SCTP")
        lab.wait_for(lambda: len(who_answers(served)) > 1, "the others are back")
        assert kept.still_works()


def who_answers(ground):
    """Nobody, if one of the associations met a server that was just taken away."""
    try:
        return set(ground.who_answers(6, "client1", VIP, protocol="sctp"))
    except OSError:
        return set()
