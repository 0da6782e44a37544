"""Endpoints that go while connections to them are open."""

import contextlib
import time

import lab
import pytest
from ground import Ground

TIMER_S = 60  # how often the proxy looks whether a drained endpoint may go


@pytest.fixture(scope="module")
def ground():
    with Ground(protocols=("tcp", "udp", "sctp")) as made:
        made.start()
        yield made


def gone(ground, server, pod):
    """Waits until a pod is no real server any more; returns after how many seconds."""
    began = time.monotonic()
    lab.wait_for(lambda: ground.real(server, pod) is None, f"{pod} is gone from {server}", 2 * TIMER_S / lab.SLACK, every=0.2)
    return time.monotonic() - began


@pytest.fixture(scope="module")
def drained(ground):
    """A Service whose pod web1 was taken away while a connection to it was open."""
    server = "TCP 10.96.1.1:80"
    ground.put_service("long", "10.96.1.1", ["web1", "web2"])
    ground.wait_weights(server, {"web1": 1, "web2": 1}, 60)
    kept = next(one for one in iter(lambda: ground.connect("client1", "10.96.1.1"), None) if one.pod == "web1" or one.close())
    ground.put_endpoints("long", ["web2"])
    ground.wait_weights(server, {"web1": 0, "web2": 1})
    with contextlib.closing(kept):
        yield server, kept


def test_a_connection_outlives_its_endpoint(ground, drained):
    assert drained[1].still_works()


def test_new_connections_never_go_there(ground, drained):
    assert ground.who_answers(30, "client1", "10.96.1.1") == {"web2": 30}
    assert drained[1].still_works()


def test_an_endpoint_without_connections_goes_at_once(ground):
    ground.put_service("idle", "10.96.1.2", ["web1", "web2"])
    ground.wait_weights("TCP 10.96.1.2:80", {"web1": 1, "web2": 1})
    ground.put_endpoints("idle", ["web2"])
    ground.wait_weights("TCP 10.96.1.2:80", {"web2": 1})


@pytest.mark.parametrize("protocol", ["udp", "sctp"])
def test_udp_and_sctp_endpoints_go_at_once(ground, protocol):
    server = f"{protocol.upper()} 10.96.1.3:80"
    ground.put_service(protocol, "10.96.1.3", ["web1"], protocol.upper())
    ground.wait_weights(server, {"web1": 1})
    with ground.connect("client1", "10.96.1.3", protocol=protocol) as one:
        assert one.pod == "web1"
        ground.put_endpoints(protocol, ["web2"], protocol.upper())
        ground.wait_weights(server, {"web2": 1})
    ground.delete_service(protocol)
    ground.wait_weights(server, None)


def test_an_endpoint_that_returns_gets_connections_again_and_keeps_its_own(ground):
    server = "TCP 10.96.1.4:80"
    ground.put_service("returns", "10.96.1.4", ["web1"])
    ground.wait_weights(server, {"web1": 1})
    with ground.connect("client1", "10.96.1.4") as kept:
        ground.put_endpoints("returns", ["web2"])
        ground.wait_weights(server, {"web1": 0, "web2": 1})
        ground.put_endpoints("returns", ["web1", "web2"])
        ground.wait_weights(server, {"web1": 1, "web2": 1})
        assert kept.still_works()
        assert set(ground.who_answers(10, "client1", "10.96.1.4")) == {"web1", "web2"}


def test_a_service_that_goes_takes_its_connections_along(ground):
    server = "TCP 10.96.1.5:80"
    ground.put_service("goes", "10.96.1.5", ["web1"])
    ground.wait_weights(server, {"web1": 1})
    with ground.connect("client1", "10.96.1.5") as one:
        ground.delete_service("goes")
        ground.wait_weights(server, None)
        with pytest.raises(OSError):
            one.still_works()


def test_draining_goes_on_after_a_restart(ground):
    """The list of what drains is not kept; weights in the kernel are all there is."""
    server = "TCP 10.96.1.6:80"
    ground.put_service("restart", "10.96.1.6", ["web1", "web3"])
    ground.wait_weights(server, {"web1": 1, "web3": 1})
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(ground.connect("client1", "10.96.1.6")) for _ in range(2)]
        assert {one.pod for one in kept} == {"web1", "web3"}
        ground.put_endpoints("restart", ["web2"])
        ground.wait_weights(server, {"web1": 0, "web2": 1, "web3": 0})
        ground.stop()
        ground.put_endpoints("restart", ["web2", "web3"])
        ground.daemon.start()
        ground.wait_weights(server, {"web1": 0, "web2": 1, "web3": 1}, 60)
        assert all(one.still_works() for one in kept)


def test_a_drained_endpoint_goes_when_its_last_connection_has_ended(ground, drained):
    """Last, as it takes minutes: the connection's entry lives on for a while, and the timer runs every minute."""
    server, kept = drained
    assert kept.still_works()
    assert ground.real(server, "web1").weight == 0
    # An end by reset is over in ten seconds; one by FIN in two minutes.
    kept.reset()
    gone(ground, server, "web1")
    assert ground.weights(server) == {"web2": 1}
