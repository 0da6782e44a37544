"""The traffic of these tests notices what it is there to notice."""

import os
import pathlib
import signal
import time

import lab
import pytest
from lab import conntrack
from webload import SERVING, undisturbed

PODS = ("web1a", "web1b")
ADDRESS = "10.96.1.1"


@pytest.fixture
def wire(variant):
    """A node that leads one address to one of two pods."""
    with lab.Cluster("kpf", nodes={"node1": "zone-a"}, outsiders={}, pods=dict.fromkeys(("client1", *PODS), "node1")) as made:
        for pod in PODS:
            made.serve(pod, **SERVING)
        made.wait_serving()
        mode = lab.Mode("iptables", variant)

        def lead_to(pod):
            rule = f"-A PREROUTING -d {ADDRESS} -j DNAT --to {made.address(pod)}"
            mode.run(made, "node1", ["iptables-restore"], input=f"*nat\n{rule}\nCOMMIT\n")

        made.iptables = lambda *words: mode.run(made, "node1", ["iptables", *words])
        made.lead_to = lead_to
        lead_to(PODS[0])
        yield made


@pytest.fixture
def traffic(wire):
    flows = [lab.Flow(kind, "client1", proto, ADDRESS, port)
             for kind, port in (("stream", 9000), ("probes", 8080)) for proto in ("tcp", "udp")]
    with lab.Traffic(wire, flows) as made:
        made.wait_answers()
        yield made


def test_undisturbed_traffic_is_called_so(traffic):
    undisturbed(traffic.report())


def test_lost_packets_are_seen_by_every_flow(wire, traffic):
    wire.iptables("-I", "FORWARD", "-j", "DROP")
    lab.wait_for(lambda: all(one.failed for one in traffic.report()), "every flow sees it")
    wire.iptables("-F", "FORWARD")
    traffic.wait_answers()


def test_one_lost_segment_is_seen(wire, traffic):
    """TCP makes up for it, so that no request fails. It does not pass for a machine that stood still."""
    wire.iptables("-I", "FORWARD", "-p", "tcp", "--dport", "9000", "-m", "statistic", "--mode", "nth", "--every", "20", "--packet", "0",
                  "-j", "DROP")
    lab.wait_for(lambda: traffic.report()[0].retransmitted > 0, "a retransmission")


def test_what_was_late_because_the_machine_stood_still_is_not_called_lost(wire, traffic):
    """The machine cannot be stopped; who watches it can."""
    watcher = int(pathlib.Path(f"/proc/{traffic.pid}/task/{traffic.pid}/children").read_text(encoding="ascii"))
    os.kill(watcher, signal.SIGSTOP)
    wire.iptables("-I", "FORWARD", "-p", "tcp", "-j", "DROP")
    time.sleep(0.5)  # longer than TCP waits
    wire.iptables("-F", "FORWARD")
    os.kill(watcher, signal.SIGCONT)
    lab.wait_for(lambda: traffic.report()[0].late > 0, "a late segment")
    assert traffic.report()[0].retransmitted == 0


def test_a_stream_that_is_led_elsewhere_is_seen(wire, traffic):
    """As when its connection tracking entry was deleted."""
    node = wire["node1"].netns
    before = conntrack.entries(node)
    wire.lead_to(PODS[1])
    traffic.wait_answers()
    assert [one.moves for one in traffic.report()[:2]] == [0, 0], "entries outlive rules"
    stream = next(key for key in before if key[0] == 17 and key[4] == 9000)
    conntrack.forget(node, stream)
    lab.wait_for(lambda: traffic.report()[1].moves == 1, "the UDP stream has moved")
    # If the answer was on its way, the stream was begun anew, and the entry does not come back.
    assert conntrack.entries(node).get(stream) != before[stream], "an entry that comes back has another id"


def test_a_full_table_has_no_room_for_new_connections_only(wire, traffic):
    node = wire["node1"].netns
    if conntrack.capacity(node) > 300_000:
        pytest.skip("the connection tracking table of this machine is too large to be filled")
    # With the pause before each, they take more than the two seconds after which the kernel takes a UDP stream for one that lasts.
    traffic.wait_answers(500)
    conntrack.fill(node)
    lab.wait_for(lambda: all(one.failed for one in traffic.report()[2:]), "new connections fail")
    conntrack.empty(node)
    traffic.wait_answers()
    assert [one.failed for one in traffic.report()[:2]] == [0, 0]
