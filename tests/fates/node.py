"""A node all of whose links end in this program, and what becomes of the packets it gets.

    pods ── [ node: a network namespace with the rules ] ── eth0
                     │
              its own processes

Whatever leaves the node by eth0 or towards its pods is seen here and answered here, in the name of whoever owns the address. Its
own processes are raw sockets. So every packet's fate is known without servers and without waiting: where it went, what
the other end saw as its source, and what came back to the client.
"""

import contextlib
import dataclasses
import itertools
import os
import select
import socket
import struct
import subprocess

from lab import packets
from lab.netns import Netns
from lab.tun import Tun
from lab.wait import SLACK

ETH0, PODS, NODE = "eth0", "pods", "node"  # places: beyond eth0, behind the node, on the node

IPV4, IPV6 = "172.31.0.11", "fd00:31::11"
OTHER_IPV4 = "192.168.77.1"
# Pods with addresses that are not in the cluster's range.
STRAY_PODS = ("100.64.0.0/10", "fd00:64::/64")

_SYSCTLS = {
    "ipv4/ip_forward": 1, "ipv6/conf/all/forwarding": 1,
    "ipv4/conf/all/rp_filter": 0, "ipv4/conf/default/rp_filter": 0,
    "ipv4/conf/all/send_redirects": 0, "ipv4/conf/default/send_redirects": 0,
    "ipv6/conf/all/accept_dad": 0, "ipv6/conf/default/accept_dad": 0,
    # Every refusal must be told, however many there are.
    "ipv4/icmp_ratelimit": 0, "ipv4/icmp_ratemask": 0, "ipv6/icmp/ratelimit": 0, "ipv6/icmp/ratemask": 0,
}
_BATCH = 32  # packets that are under way at the same time
_QUIET_S = 0.05
_BUFFER = 4 << 20
_IPV6_PKTINFO, _IPV6_RECVPKTINFO = 50, 49
_HDRINCL = {socket.AF_INET: (socket.IPPROTO_IP, 3), socket.AF_INET6: (socket.IPPROTO_IPV6, 36)}
_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Probe:
    """One packet from a place to an address."""

    number: int
    place: str
    proto: str
    source: str
    source_port: int
    destination: str
    port: int

    def write(self):
        return packets.request(self.number, self.proto, self.source, self.source_port, self.destination, self.port)


class Outcome:
    """What was seen of one probe."""

    def __init__(self, probe):
        self.probe = probe
        self.arrival = None  # (place, packet)
        self.arrivals = 0
        self.back = []  # what came back to the client, in words

    def __str__(self):
        back = " and ".join(self.back) or "silence"
        if not self.arrival:
            return back
        place, packet = self.arrival
        at = f"[{packet.destination}]" if ":" in packet.destination else packet.destination
        seen = "its own" if packet.source == self.probe.source else packet.source
        twice = f", {self.arrivals} times" if self.arrivals > 1 else ""
        return f"{at}:{packet.port} at {place} sees {seen} address{twice}; {back}"

    @property
    def endpoint(self):
        return self.arrival and (self.arrival[1].destination, self.arrival[1].port)


class Node:
    """Made by the constructor, removed by close(). `pod_cidrs` are routed to its pods, `pod_device` is the device towards them."""

    def __init__(self, pod_cidrs, pod_gateways, pod_device="veth0"):
        self._closing = contextlib.ExitStack()
        try:
            self._build(pod_cidrs, pod_gateways, pod_device)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._closing.close()

    def run(self, *argv, **options):
        """Runs a program on the node; returns what subprocess.run returns, with text output captured."""
        options = {"capture_output": True, "text": True, "check": False, "timeout": 120, **options}
        return subprocess.run(["ip", "netns", "exec", self.ns.name, *map(str, argv)], **options)

    def send(self, probes):
        """Sends the probes and returns their outcomes, in the same order."""
        self._outcomes = {probe.number: Outcome(probe) for probe in probes}
        for start in range(0, len(probes), _BATCH):
            for probe in probes[start:start + _BATCH]:
                self._emit(probe)
            self._drain()
        while self._under_way() and self._poll.poll(_QUIET_S * SLACK * 1000):
            self._drain()
        return list(self._outcomes.values())

    def _under_way(self):
        return any(not outcome.back for outcome in self._outcomes.values())

    # Building

    def _build(self, pod_cidrs, pod_gateways, pod_device):
        self.ns = self._closing.enter_context(contextlib.closing(Netns(f"kpf-{os.getpid()}-{next(_numbers)}")))
        self.ns.sysctl(_SYSCTLS)
        self._devices = {place: self._closing.enter_context(contextlib.closing(Tun(self.ns, name)))
                         for place, name in ((ETH0, "eth0"), (PODS, pod_device))}
        self.ns.ip("link set lo up", f"address add {OTHER_IPV4}/24 dev lo",
                   f"address add {IPV4}/24 dev eth0", f"address add {IPV6}/64 dev eth0 nodad",
                   "route add default dev eth0", "route add ::/0 dev eth0",
                   *(f"address add {one} dev {pod_device} {'nodad' if ':' in one else ''}" for one in pod_gateways),
                   *(f"route replace {cidr} dev {pod_device}" for cidr in (*pod_cidrs, *STRAY_PODS)))
        self._open_sockets()
        self._poll = select.poll()
        for source in (*self._devices.values(), *self._inbound):
            self._poll.register(source if isinstance(source, socket.socket) else source.fd, select.POLLIN)

    def _open_sockets(self):
        self._inbound, self._outbound = [], {}
        for family in (socket.AF_INET, socket.AF_INET6):
            icmp = 1 if family == socket.AF_INET else 58
            for number in (*packets.PROTOCOLS.values(), icmp):
                self._inbound.append(self._socket(family, number))
            self._outbound[family] = self._socket(family, socket.IPPROTO_RAW)
            self._outbound[family].setsockopt(*_HDRINCL[family], 1)

    def _socket(self, family, proto):
        with self.ns.entered():
            made = self._closing.enter_context(socket.socket(family, socket.SOCK_RAW, proto))
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        if family == socket.AF_INET6 and proto != socket.IPPROTO_RAW:
            made.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVPKTINFO, 1)
        return made

    # Packets

    def _emit(self, probe):
        if probe.place != NODE:
            self._devices[probe.place].send(probe.write())
            return
        family = socket.AF_INET6 if ":" in probe.destination else socket.AF_INET
        try:
            self._outbound[family].sendto(probe.write(), (probe.destination, 0))
        except PermissionError:
            pass  # a rule of this very node stopped it; whether it also says so will be seen
        except OSError as error:
            self._outcomes[probe.number].back.append(error.strerror)

    def _drain(self):
        busy = True
        while busy:
            busy = False
            for place, device in self._devices.items():
                while data := device.receive():
                    busy = True
                    self._see(place, packets.read(data))
            for sock in self._inbound:
                while found := _receive(sock):
                    busy = True
                    self._see(NODE, found[0])

    def _see(self, place, packet):
        outcome = packet and self._outcomes.get(packet.number)
        if not outcome:
            return
        if packet.kind == packets.REQUEST:
            self._arrived(outcome, place, packet)
        else:
            self._came_back(outcome, place, packet)

    def _arrived(self, outcome, place, packet):
        outcome.arrival = (place, packet)
        outcome.arrivals += 1
        if place != NODE:  # the node answers for itself
            self._devices[place].send(packets.answer(packet))

    @staticmethod
    def _came_back(outcome, place, packet):
        probe = outcome.probe
        expected = (probe.place, probe.destination, probe.port, probe.source, probe.source_port)
        if (place, *packet[3:]) == expected:
            outcome.back.append(packet.kind)
        elif place == probe.place or packet.kind != packets.RESET:
            # On a node, both ends of a connection to itself see what comes back.
            outcome.back.append(f"{packet.kind} from {packet.source}:{packet.source_port} at {place}")


def _receive(sock):
    """A tuple with the next packet (None if it is of no concern), or None when there is none."""
    try:
        if sock.family == socket.AF_INET:
            return (packets.read(sock.recv(65536)),)
        data, ancillary, _, peer = sock.recvmsg(65536, socket.CMSG_SPACE(20))
    except BlockingIOError:
        return None
    destination = next(socket.inet_ntop(socket.AF_INET6, struct.unpack("16sI", value)[0])
                       for _, kind, value in ancillary if kind == _IPV6_PKTINFO)
    return (packets.read_payload(sock.proto, peer[0], destination, data),)
