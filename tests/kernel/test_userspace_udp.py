"""Mode userspace: datagrams."""

import os
import select
import socket

import lab
import pytest
from userspace_world import PATIENCE_S, PODS, PORT, exchange, udp, world  # noqa: F401


@pytest.mark.parametrize("family", [4, 6])
def test_datagrams_of_any_size_are_carried_both_ways(udp, family):  # noqa: F811
    made = udp()
    server = made.datagrams("web1a")
    client = made.client(family, kind=socket.SOCK_DGRAM)
    for size in (0, 1, 1400, 4097, 60000):
        exchange(client, server, os.urandom(size))


def test_each_client_has_its_own_socket_until_it_is_idle(udp):  # noqa: F811
    made = udp("60s")
    server = made.datagrams("web1a")
    clients = [made.client(kind=socket.SOCK_DGRAM) for _ in range(5)]
    first = [exchange(one, server) for one in clients]
    assert len(set(first)) == 5
    assert [exchange(one, server) for one in clients] == first


def test_an_idle_client_is_forgotten(udp):  # noqa: F811
    made = udp("250ms")
    server = made.datagrams("web1a")
    client = made.client(kind=socket.SOCK_DGRAM)
    first = exchange(client, server)
    lab.wait_for(lambda: not made.cluster.run("node1", ["ss", "-Hun", f"dport = :{PORT}"]).stdout, "its socket goes", PATIENCE_S)
    assert exchange(client, server) != first


def test_the_next_datagram_goes_to_the_endpoint_that_there_is(udp):  # noqa: F811
    made = udp("60s")
    servers = {pod: made.datagrams(pod) for pod in PODS}
    clients = {family: made.client(family, kind=socket.SOCK_DGRAM) for family in (4, 6)}
    for pods in (PODS[:1], PODS[1:], PODS[:1]):
        made.service(pods, "UDP")
        for client in clients.values():
            exchange(client, servers[pods[0]])


@pytest.mark.parametrize("family", [4, 6])
def test_datagrams_are_refused_while_there_is_no_endpoint(udp, family):  # noqa: F811
    made = udp(pods=[])
    client = made.client(family, kind=socket.SOCK_DGRAM)
    client.send(b"anybody?")
    with pytest.raises(ConnectionRefusedError):
        client.recv(1)
    server = made.datagrams("web1a")
    made.service(["web1a"], "UDP")
    exchange(client, server)
    made.service([], "UDP")
    client.send(b"anybody?")
    with pytest.raises(ConnectionRefusedError):
        client.recv(1)


def test_datagrams_of_one_client_stick_to_its_endpoint(udp):  # noqa: F811
    made = udp("250ms")
    servers = {pod: made.datagrams(pod) for pod in PODS}
    made.service(PODS, "UDP", sessionAffinity="ClientIP")
    for _ in range(5):
        with made.client(kind=socket.SOCK_DGRAM) as client:
            client.send(b"who?")
            ready, _, _ = select.select(servers.values(), [], [], PATIENCE_S)
            assert len(ready) == 1
            ready[0].recv(100)
            servers = {pod: one for pod, one in servers.items() if one in ready}
