"""Pods that are replaced under load: whoever asks while there is a healthy pod gets an answer."""

import lab
import pytest
from webload import PODS, undisturbed, web, web_flows

NEW_PODS = ("web2a", "web2b")
TERMINATING = {"ready": False, "serving": True, "terminating": True}


@pytest.fixture
def load(scene):
    """A function that starts the flows of the given kinds."""
    def start(*kinds):
        traffic = lab.Traffic(scene.cluster, [flow for flow in web_flows(scene.cluster) if flow.kind in kinds])
        traffic.wait_answers()
        return traffic

    return start


def go(scene, traffic, endpoints):
    """Publishes the endpoints; when this returns, the kernel has them, and requests of the time before are done."""
    scene.point_to(endpoints)
    scene.wait_taken_up()
    traffic.wait_answers(3)


def replace(scene, traffic, endpoints, leaving, coming):
    """As a Deployment and the kubelet do it: the new pod is ready before the old one leaves, and the old one serves until
    nobody is sent to it any more."""
    scene.serve(coming)
    endpoints[coming] = {}
    go(scene, traffic, endpoints)
    endpoints[leaving] = TERMINATING
    go(scene, traffic, endpoints)
    del endpoints[leaving]
    go(scene, traffic, endpoints)
    scene.cluster.stop_serving(leaving)


@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_a_rolling_update_fails_no_request(scene, load, policy):
    scene.manifests.put(web(externalTrafficPolicy=policy))
    scene.wait_taken_up()
    traffic = load("probes")
    endpoints = dict.fromkeys(PODS, {})
    for leaving, coming in [*zip(PODS, NEW_PODS, strict=True), *zip(NEW_PODS, PODS, strict=True)]:
        replace(scene, traffic, endpoints, leaving, coming)
    records = traffic.report()
    undisturbed(records)
    for one in records:
        assert set(one.pods) == {*PODS, *NEW_PODS}, f"not every pod was asked: {one}"


def test_a_swap_of_all_pods_fails_no_request(scene, load):
    """Blue and green: the endpoints change all at once, and the old pods serve on for a while. TCP loses nothing."""
    scene.serve(*NEW_PODS)
    traffic = load("probes", "stream")
    swaps = (NEW_PODS, PODS, NEW_PODS)
    for colour in swaps:
        go(scene, traffic, dict.fromkeys(colour, {}))
    told = "\n".join(map(str, traffic.report()))
    for one in traffic.report():
        # UDP connections to the old pods are removed; an answer that is on its way in that moment finds none, and is lost.
        assert one.failed <= (len(swaps) if " udp " in one.name else 0), told
        if one.name.startswith("stream") and " tcp " in one.name:
            assert one.moves == 0, told
            assert one.retransmitted == 0, told


def test_terminating_pods_are_reached_while_they_serve(scene, load):
    traffic = load("probes", "stream")
    go(scene, traffic, {PODS[0]: TERMINATING, PODS[1]: {}})
    go(scene, traffic, dict.fromkeys(PODS, TERMINATING))
    go(scene, traffic, dict.fromkeys(PODS, {}))
    undisturbed(traffic.report())
