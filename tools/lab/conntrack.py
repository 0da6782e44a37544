"""The connection tracking table of one network namespace, by netlink."""

import contextlib
import dataclasses
import ipaddress
import itertools
import pathlib
import socket
import struct

_NETLINK_NETFILTER = 12
_NEW, _GET, _DELETE = (1 << 8 | message for message in (0, 1, 2))
_REQUEST, _ACK, _DUMP, _CREATE, _EXCL = 0x1, 0x4, 0x300, 0x400, 0x200
_ERROR, _DONE = 2, 3
_TUPLE_ORIG, _TUPLE_REPLY, _STATUS, _PROTOINFO, _TIMEOUT, _MARK, _ID, _MARK_MASK = 1, 2, 3, 4, 7, 8, 12, 21
_PROTOINFO_TCP, _TCP_STATE = 1, 1
CLOSE_WAIT = 5  # a state of TCP
PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp"}
_IP, _PROTO = 1, 2
_NESTED = 0x8000
_SEEN_REPLY, _ASSURED, _CONFIRMED = 2, 4, 8
_UDP = 17
_FILL_MARK = 0x50AC
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")


def entries(netns):
    """Every entry as {(protocol, source, source port, destination, destination port): id}. An entry that is removed
    and comes back has another id."""
    found = {}
    with _open(netns) as sock:
        sock.send(_message(_GET, _REQUEST | _DUMP, b""))
        for kind, body in _replies(sock):
            if kind == _NEW:
                attributes = dict(_attributes(body[4:]))
                found[_tuple(attributes[_TUPLE_ORIG])] = struct.unpack(">I", attributes[_ID])[0]
    return found


@dataclasses.dataclass(frozen=True)
class Flow:
    """One connection. `id` tells it from a later one between the same ends; `answers` is who really answers."""

    protocol: str
    source: tuple[str, int]
    destination: tuple[str, int]
    answers: tuple[str, int]
    id: int
    timeout: int = dataclasses.field(compare=False)  # seconds left
    tcp_state: int | None = dataclasses.field(compare=False)


def flows(netns, protocol="udp"):
    """The entries of one protocol, with all that is known of them."""
    with _open(netns) as sock:
        sock.send(_message(_GET, _REQUEST | _DUMP, b""))
        found = [_flow(dict(_attributes(body[4:]))) for kind, body in _replies(sock) if kind == _NEW]
    return [flow for flow in found if flow.protocol == protocol]


def fill(netns):
    """Adds entries that the kernel will not give up for others until the table is full; returns how many."""
    count = 0
    with _open(netns) as sock:
        for number in itertools.count():
            # Only the last one is acknowledged; a failure is told of any.
            sock.send(b"".join(_entry(number * 256 + one, _ACK if one == 255 else 0) for one in range(256)))
            kind, body = next(_replies(sock))
            if kind == _ERROR and struct.unpack_from("=i", body)[0] != 0:
                return count
            count += 256


def empty(netns):
    """Removes what fill() has added."""
    mark = _attribute(_MARK, struct.pack(">I", _FILL_MARK)) + _attribute(_MARK_MASK, struct.pack(">I", 0xFFFFFFFF))
    with _open(netns) as sock:
        sock.send(_message(_DELETE, _REQUEST | _ACK, mark))
        next(_replies(sock))


def forget(netns, key):
    """Removes one IPv4 entry, given as entries() shows it."""
    with _open(netns) as sock:
        sock.send(_message(_DELETE, _REQUEST | _ACK, _side(_TUPLE_ORIG, *key)))
        next(_replies(sock))


def capacity(netns):
    """How many entries the namespace may have: the limit is one for the whole machine, but each namespace counts its own."""
    with netns.entered():
        return int(pathlib.Path("/proc/sys/net/netfilter/nf_conntrack_max").read_text(encoding="ascii"))


@contextlib.contextmanager
def _open(netns):
    with netns.entered():
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
    with sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind((0, 0))
        yield sock


def _attribute(kind, value):
    return _ATTRIBUTE.pack(len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def _attributes(data):
    while data:
        length, kind = _ATTRIBUTE.unpack_from(data)
        yield kind & 0x3FFF, data[4:length]
        data = data[length + 3 & ~3:]


def _message(kind, flags, attributes):
    body = struct.pack("=BBH", socket.AF_INET if kind != _GET else 0, 0, 0) + attributes
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body


def _replies(sock):
    while True:
        data = sock.recv(1 << 20)
        while data:
            length, kind, _, _, _ = _HEADER.unpack_from(data)
            if kind == _DONE:
                return
            yield kind, data[_HEADER.size:length]
            data = data[length + 3 & ~3:]


def _tuple(data):
    parts = dict(_attributes(data))
    source, destination = (ipaddress.ip_address(value) for _, value in sorted(_attributes(parts[_IP]))[:2])
    proto = dict(_attributes(parts[_PROTO]))
    ports = [struct.unpack(">H", proto[kind])[0] if kind in proto else 0 for kind in (2, 3)]
    return proto[1][0], str(source), ports[0], str(destination), ports[1]


def _flow(attributes):
    number, source, source_port, destination, destination_port = _tuple(attributes[_TUPLE_ORIG])
    _, answers, answers_port, _, _ = _tuple(attributes[_TUPLE_REPLY])
    tcp = dict(_attributes(dict(_attributes(attributes.get(_PROTOINFO, b""))).get(_PROTOINFO_TCP, b"")))
    return Flow(PROTOCOLS.get(number, str(number)), (source, source_port), (destination, destination_port),
                (answers, answers_port), struct.unpack(">I", attributes[_ID])[0],
                struct.unpack(">I", attributes.get(_TIMEOUT, bytes(4)))[0],
                tcp[_TCP_STATE][0] if _TCP_STATE in tcp else None)


def _side(kind, protocol, source, source_port, destination, destination_port):
    """One direction of an IPv4 flow, as an attribute."""
    ip = _attribute(1, ipaddress.ip_address(source).packed) + _attribute(2, ipaddress.ip_address(destination).packed)
    ports = (struct.pack(">H", port) for port in (source_port, destination_port))
    proto = b"".join(_attribute(1 + at, value) for at, value in enumerate((bytes([protocol]), *ports)))
    return _attribute(_NESTED | kind, _attribute(_NESTED | _IP, ip) + _attribute(_NESTED | _PROTO, proto))


def _entry(number, flags):
    """The message that adds one entry for a flow between addresses that nobody has: those of 198.18.0.0/15."""
    one, port = 0xC6120000 + (number >> 14), 1024 + (number & 0x3FFF)
    status = _SEEN_REPLY | _ASSURED | _CONFIRMED
    values = ((_STATUS, status), (_TIMEOUT, 600), (_MARK, _FILL_MARK))
    return _message(_NEW, _REQUEST | _CREATE | _EXCL | flags, _side(_TUPLE_ORIG, _UDP, one, port, "198.19.255.254", 9)
                    + _side(_TUPLE_REPLY, _UDP, "198.19.255.254", 9, one, port)
                    + b"".join(_attribute(kind, struct.pack(">I", value)) for kind, value in values))
