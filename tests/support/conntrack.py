"""The kernel's table of tracked connections in a network namespace, read over netlink: no program is needed."""

import dataclasses
import ipaddress
import socket
import struct

_NETLINK_NETFILTER = 12
_GET, _DUMP = 0x0101, 0x0301  # conntrack's "get"; request | root | match
_DONE, _ERROR = 3, 2
_TUPLE_ORIG, _TUPLE_REPLY, _PROTOINFO, _TIMEOUT, _ID = 1, 2, 4, 7, 12
_PROTOINFO_TCP, _TCP_STATE = 1, 1
CLOSE_WAIT = 5
PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp"}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One connection. `id` tells it from a later one between the same ends; `answers` is who really answers."""

    protocol: str
    source: tuple[str, int]
    destination: tuple[str, int]
    answers: tuple[str, int]
    id: int
    timeout: int = dataclasses.field(compare=False)  # seconds left
    tcp_state: int | None = dataclasses.field(compare=False)


def entries(netns, protocol="udp", family=4):
    """Those of one protocol in a lab.netns.Space."""
    with netns.entered():
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
    with sock:
        header = struct.pack("=IHHII", 20, _GET, _DUMP, 1, 0)
        sock.send(header + bytes([socket.AF_INET if family == 4 else socket.AF_INET6, 0, 0, 0]))
        return [entry for entry in map(_entry, _messages(sock)) if entry.protocol == protocol]


def _messages(sock):
    """The bodies of a dump's messages, without their headers."""
    while True:
        data = sock.recv(65536)
        while data:
            length, kind = struct.unpack_from("=IH", data)
            if kind == _DONE:
                return
            if kind == _ERROR:
                raise OSError(-struct.unpack_from("=i", data, 16)[0], "list tracked connections")
            yield data[20:length]
            data = data[(length + 3) & ~3:]


def _attributes(data):
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3fff] = data[4:length]
        data = data[(length + 3) & ~3:]
    return found


def _tuple(data):
    """Protocol number, source and destination of one direction."""
    parts = _attributes(data)
    addresses, ports = _attributes(parts[1]), _attributes(parts[2])
    source, destination = (str(ipaddress.ip_address(addresses.get(v4) or addresses[v4 + 2])) for v4 in (1, 2))
    number = [struct.unpack("!H", ports[one])[0] if one in ports else 0 for one in (2, 3)]
    return ports[1][0], (source, number[0]), (destination, number[1])


def _entry(data):
    parts = _attributes(data)
    protocol, source, destination = _tuple(parts[_TUPLE_ORIG])
    state = _attributes(_attributes(parts.get(_PROTOINFO, b"")).get(_PROTOINFO_TCP, b"")).get(_TCP_STATE)
    return Entry(PROTOCOLS.get(protocol, str(protocol)), source, destination, _tuple(parts[_TUPLE_REPLY])[1],
                 struct.unpack("!I", parts[_ID])[0], struct.unpack("!I", parts.get(_TIMEOUT, bytes(4)))[0],
                 state[0] if state else None)
