"""Mode userspace: TCP connections that the daemon carries, whatever clients and pods do."""

import contextlib
import hashlib
import ipaddress
import os
import select
import socket
import struct
import threading

import exposition
import lab
import pytest
from pages import ask
from test_tcp_reset import Connection, error_of
from userspace_world import (  # noqa: F401
    MUCH, OTHER_VIP, PATIENCE_S, PODS, PORT, VIP, one_pod, receive, receive_to_end, reset, send_all, world)

GROWTH_MB = 16  # of a process that keeps no payload
PROXY_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def send_until_stuck(sock):
    """Sends until nobody takes any more for a while; returns what was sent."""
    sent = hashlib.sha256()
    count = 0
    sock.setblocking(False)
    while count < MUCH and select.select([], [sock], [], 0.5)[1]:
        block = os.urandom(1 << 16)
        done = sock.send(block)
        sent.update(block[:done])
        count += done
    sock.settimeout(PATIENCE_S)
    return count, sent.hexdigest()


# How connections end

@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("first", ["client", "server"])
def test_a_half_closed_connection_carries_on_the_other_way(one_pod, family, first):  # noqa: F811
    held = one_pod.connect(family=family)
    ends = (held.client, held.server) if first == "client" else (held.server, held.client)
    answer = os.urandom(MUCH)
    ends[0].sendall(b"question")
    ends[0].shutdown(socket.SHUT_WR)
    assert receive_to_end(ends[1]) == b"question"
    sending = send_all(ends[1], answer)
    assert receive(ends[0], MUCH) == answer
    sending.join()
    ends[1].close()
    assert error_of(ends[0]) == "read b''"


@pytest.mark.parametrize("first", ["client", "server"])
def test_a_reset_from_either_side_reaches_the_other(one_pod, first):  # noqa: F811
    held = one_pod.connect()
    ends = (held.client, held.server) if first == "client" else (held.server, held.client)
    reset(ends[0])
    assert error_of(ends[1]) == "ECONNRESET"


def test_what_was_sent_before_the_end_arrives(one_pod):  # noqa: F811
    """The client sends all of it and closes, before the pod has read anything."""
    held = one_pod.connect()
    data = os.urandom(1 << 20)
    sending = send_all(held.client, data)
    lab.wait_for(lambda: select.select([held.server], [], [], 0)[0], "something arrives", PATIENCE_S)
    received = receive(held.server, len(data) // 2)
    sending.join()
    held.client.close()
    assert received + receive_to_end(held.server) == data


@pytest.mark.parametrize("first", ["client", "server"])
def test_a_reset_is_noticed_while_much_is_under_way(one_pod, first):  # noqa: F811
    held = one_pod.connect()
    ends = (held.client, held.server) if first == "client" else (held.server, held.client)
    send_until_stuck(ends[1])
    reset(ends[0])
    with pytest.raises(ConnectionError):
        ends[1].sendall(bytes(MUCH))


# Slow ones

def test_a_reader_that_pauses_gets_everything_and_costs_no_memory(one_pod):  # noqa: F811
    held = one_pod.connect()
    before = one_pod.memory_mb()
    count, digest = send_until_stuck(held.server)
    assert one_pod.memory_mb() < before + GROWTH_MB
    assert hashlib.sha256(receive(held.client, count)).hexdigest() == digest
    assert held.works()


def test_many_stalled_readers_do_not_keep_others_waiting(one_pod):  # noqa: F811
    before = one_pod.memory_mb()
    stalled = [one_pod.connect() for _ in range(20)]
    for one in stalled:
        one.server.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                one.server.send(bytes(1 << 16))
    assert one_pod.memory_mb() < before + GROWTH_MB
    assert all(one_pod.connect().works() for _ in range(5))


def test_a_writer_of_single_bytes_is_heard_at_once(one_pod):  # noqa: F811
    held = one_pod.connect()
    assert all(held.works() for _ in range(300))


@pytest.mark.parametrize("family", [4, 6])
def test_much_goes_both_ways_at_once(one_pod, family):  # noqa: F811
    held = one_pod.connect(family=family)
    up, down = os.urandom(MUCH), os.urandom(MUCH)
    sending = [send_all(held.client, up), send_all(held.server, down)]
    received = {}
    reading = threading.Thread(target=lambda: received.update(up=receive(held.server, MUCH)), daemon=True)
    reading.start()
    assert receive(held.client, MUCH) == down
    reading.join(PATIENCE_S)
    assert received["up"] == up
    for one in sending:
        one.join(PATIENCE_S)


# Endpoints that do not answer

def test_an_endpoint_that_accepts_and_hangs_hurts_its_own_clients_only(world):  # noqa: F811
    made = world()
    made.listen("web1a")  # the kernel accepts for it, nobody serves
    made.listen("web1b")
    made.service(["web1a"])
    hanging = [made.client() for _ in range(30)]
    made.service(["web1b"], name="other", vips=OTHER_VIP)
    for one in hanging:
        one.sendall(b"hello?")
    assert all(made.connect("web1b", address=OTHER_VIP[4]).works() for _ in range(5))
    assert made.healthy()


@pytest.mark.parametrize("family", [4, 6])
def test_an_endpoint_in_silence_is_passed_over(world, family):  # noqa: F811
    made = world()
    made.listen("web1b")
    tool = "iptables" if family == 4 else "ip6tables"
    made.mode.run(made.cluster, "web1a", [tool, "-A", "INPUT", "-p", "tcp", "--dport", str(PORT), "-j", "DROP"])
    made.service(PODS)
    waiting = [made.client(family) for _ in range(4)]
    assert all(Connection(client, server).works() for client, server in pairs(waiting, made, "web1b"))


def pairs(clients, world, pod):  # noqa: F811
    """Each of the clients with its end at the pod, which they tell by a number."""
    for number, client in enumerate(clients):
        client.sendall(bytes([number]))
    ends = {}
    for _ in clients:
        server = world.accept(pod)
        ends[server.recv(1)[0]] = server
    return [(client, ends[number]) for number, client in enumerate(clients)]


def test_an_endpoint_that_refuses_is_passed_over(world):  # noqa: F811
    made = world()
    made.listen("web1b")
    made.service(PODS)
    assert [made.served_by(["web1b"]) for _ in range(4)] == ["web1b"] * 4


def test_a_client_whose_endpoints_all_refuse_is_reset(world):  # noqa: F811
    made = world()
    made.service(PODS)
    with pytest.raises(ConnectionResetError):
        made.client().recv(1)


def test_without_endpoints_clients_are_refused_and_later_served(world):  # noqa: F811
    made = world()
    made.service([])
    for family in (4, 6):
        with pytest.raises(ConnectionRefusedError):
            made.client(family)
    made.listen("web1a")
    made.service(["web1a"])
    for family in (4, 6):
        assert made.connect(family=family).works()


def test_nothing_is_left_of_connections_that_have_ended(one_pod):  # noqa: F811
    """However they ended."""
    one_pod.connect().close()
    before = one_pod.descriptors()
    for number in range(100):
        held = one_pod.connect()
        if number % 3 == 0:
            reset(held.client)
        if number % 3 == 1:
            held.server.shutdown(socket.SHUT_WR)
        held.close()
    # Pipes are kept for others.
    lab.wait_for(lambda: one_pod.descriptors() <= before + 8, f"descriptors to be {before} again", PATIENCE_S)


# What else the proxy does for a connection

@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("member", ["client1", "node1", "ext1"])
def test_the_proxy_protocol_tells_who_asked_for_what(world, family, member):  # noqa: F811
    made = world()
    made.listen("web1a")
    made.service(["web1a"], annotations={"userspace.kube-proxy/proxy-protocol": "v2"})
    client = made.client(family, member=member)
    server = made.accept("web1a")
    client.sendall(b"hello")
    size = 12 if family == 4 else 36
    header = receive(server, 16 + size)
    assert header[:12] == PROXY_SIGNATURE
    assert header[12:16] == bytes([0x21, 0x11 if family == 4 else 0x21]) + struct.pack(">H", size)
    length = size // 2 - 2
    addresses = [str(ipaddress.ip_address(part)) for part in (header[16:16 + length], header[16 + length:16 + 2 * length])]
    assert list(zip(addresses, struct.unpack(">HH", header[-4:]), strict=True)) == [client.getsockname()[:2], (VIP[family], 80)]
    assert receive(server, 5) == b"hello"
    server.sendall(b"no header in this direction")
    assert receive(client, 27) == b"no header in this direction"


def test_connections_to_an_endpoint_that_is_gone_may_drain_for_a_time(world):  # noqa: F811
    made = world("--tcp-reset-after=1s")
    made.listen("web1a")
    made.listen("web1b")
    made.service(PODS[:1])
    held = made.connect()
    made.service(PODS[1:])
    other = made.connect("web1b")
    assert error_of(held.client) == "ECONNRESET"
    assert error_of(held.server) == "ECONNRESET"
    assert other.works()
    made.service(PODS[1:], conditions={"ready": False, "terminating": True})
    gone = made.connect("web1b")
    assert gone.works(), "an endpoint that is being terminated is not gone"
    made.manifests.delete(("Service", "default", "web"))
    assert error_of(gone.client) == "ECONNRESET"


def test_without_a_time_to_drain_connections_go_on(one_pod):  # noqa: F811
    held = one_pod.connect()
    one_pod.service([])
    assert held.works()
    one_pod.manifests.delete(("Service", "default", "web"))
    one_pod.wait()
    assert held.works()
    with pytest.raises(OSError, match="refused|unreachable|route"):
        one_pod.client()


def test_a_connection_outlives_changes_of_its_service(one_pod):  # noqa: F811
    held = one_pod.connect()
    for changes in ({"vips": OTHER_VIP}, {"sessionAffinity": "ClientIP"}, {"internalTrafficPolicy": "Local"}, {"type": "NodePort"}):
        one_pod.service(["web1a"], **changes)
        assert held.works()
    assert one_pod.connect().works()


def test_clients_take_turns_unless_they_stick(world):  # noqa: F811
    made = world()
    for pod in PODS:
        made.listen(pod)
    made.service(PODS)
    turns = [made.served_by() for _ in range(6)]
    assert turns == [*turns[:2]] * 3
    assert set(turns) == set(PODS)
    made.service(PODS, sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 1000}})
    mine = made.served_by()
    assert [made.served_by() for _ in range(5)] == [mine] * 5
    other = next(pod for pod in PODS if pod != mine)
    made.service([other], sessionAffinity="ClientIP")
    assert made.served_by() == other
    made.service(PODS, sessionAffinity="ClientIP")
    assert [made.served_by() for _ in range(5)] == [other] * 5


def test_connections_are_counted(world):  # noqa: F811
    made = world("--per-service-metrics")
    made.listen("web1a")
    made.service(["web1a"])
    for _ in range(7):
        made.connect().close()
    labels = {"ip_family": "IPv4", "namespace": "default", "service": "web", "port": "80", "protocol": "TCP"}

    def counted():
        families = exposition.parse(ask(made.cluster["node1"].netns, 10249, "/metrics").text)
        family = families.get("kubeproxy_service_connections_total")
        return family and family.value(**labels) == 7

    lab.wait_for(counted, "7 connections are counted", 60)
