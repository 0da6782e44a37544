"""Single packets of TCP, UDP and SCTP, written and read byte by byte.

A request opens a connection: a SYN, a datagram, an INIT. It carries a number in a field that address translation leaves alone
(sequence number, payload, initiate tag), and so does everything that comes back because of it. So whoever sees a packet knows
which request it belongs to, whatever has been rewritten on the way.
"""

import functools
import socket
import struct
from typing import NamedTuple

PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}
_NAMES = {number: name for name, number in PROTOCOLS.items()}
_ICMP = {4: 1, 6: 58}
_PORT_UNREACHABLE = {4: (3, 3), 6: (1, 4)}

REQUEST = "request"
ANSWER = "answer"
RESET = "reset"  # of TCP
REFUSAL = "port unreachable"  # an ICMP error
ERROR = "icmp"  # another one; the kind is this word with type and code

_SYN, _RST, _ACK = 0x02, 0x04, 0x10
_INIT, _INIT_ACK = 1, 2


class Packet(NamedTuple):
    """What a packet says. An ICMP error has the addresses of the packet that it is about, turned round as in an answer."""

    kind: str
    number: int
    proto: str
    source: str
    source_port: int
    destination: str
    port: int


def request(number, proto, source, source_port, destination, port):
    """The bytes of the packet that opens a connection."""
    return write(Packet(REQUEST, number, proto, source, source_port, destination, port))


def answer(asked):
    """The bytes of what a server says to a request that has been read."""
    return write(Packet(ANSWER, asked.number, asked.proto, asked.destination, asked.port, asked.source, asked.source_port))


def write(packet):
    source, destination = packed(packet.source), packed(packet.destination)
    body = _WRITERS[packet.proto](packet, source + destination)
    number = PROTOCOLS[packet.proto]
    if len(source) == 16:
        return struct.pack("!IHBB", 6 << 28, len(body), number, 64) + source + destination + body
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0x4000, 64, number, 0) + source + destination
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:] + body


def read(data):
    """What the packet says, or None if it is of no concern here."""
    if data[0] >> 4 == 4:
        start = (data[0] & 0xF) * 4
        return _read(4, data[9], data[12:16], data[16:20], data[start:])
    return _read(6, data[6], data[8:24], data[24:40], data[40:])


def read_payload(proto_number, source, destination, payload):
    """The same for an IPv6 packet whose header the kernel has kept, as raw sockets give it."""
    return _read(6, proto_number, packed(source), packed(destination), payload)


@functools.lru_cache(maxsize=None)
def packed(address):
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


@functools.lru_cache(maxsize=None)
def text(address):
    return socket.inet_ntop(socket.AF_INET6 if len(address) == 16 else socket.AF_INET, address)


def _read(family, proto_number, source, destination, payload):
    if proto_number == _ICMP[family]:
        return _read_error(family, payload)
    proto = _NAMES.get(proto_number)
    if not proto or len(payload) < 8:
        return None
    found = _READERS[proto](payload)
    if not found:
        return None
    ports = struct.unpack_from("!HH", payload)
    return Packet(*found, proto, text(source), ports[0], text(destination), ports[1])


def _read_error(family, payload):
    kind, code = payload[:2]
    about_errors = kind in (3, 11, 12) if family == 4 else kind < 128
    if not about_errors or len(payload) < 36:
        return None
    inner = read(payload[8:])
    if not inner or inner.kind != REQUEST:
        return None
    word = REFUSAL if (kind, code) == _PORT_UNREACHABLE[family] else f"{ERROR} {kind}/{code}"
    return Packet(word, inner.number, inner.proto, inner.destination, inner.port, inner.source, inner.source_port)


def _checksum(data):
    # The sum of 16-bit words with end-around carry is the remainder by 65535.
    if len(data) % 2:
        data += b"\0"
    return 0xFFFF - (int.from_bytes(data, "big") % 0xFFFF or 0xFFFF)


def _with_checksum(segment, at, proto, addresses):
    # IPv4 and IPv6 differ in the layout of the pseudo header but not in its sum.
    pseudo = addresses + struct.pack("!II", len(segment), PROTOCOLS[proto])
    value = _checksum(pseudo + segment) or 0xFFFF
    return segment[:at] + struct.pack("!H", value) + segment[at + 2:]


def _write_tcp(packet, addresses):
    asks = packet.kind == REQUEST
    numbers = (packet.number, 0, _SYN) if asks else (1, packet.number + 1 & 0xFFFFFFFF, _SYN | _ACK)
    segment = struct.pack("!HHIIBBHHH", packet.source_port, packet.port, numbers[0], numbers[1], 0x50, numbers[2], 0xFFFF, 0, 0)
    return _with_checksum(segment, 16, "tcp", addresses)


def _read_tcp(payload):
    # Only the first eight bytes are sure to be there when an ICMP error tells them.
    sequence, acknowledged, _, flags = struct.unpack_from("!IIBB", payload.ljust(20, b"\0"), 4)
    if len(payload) < 14 or flags & (_SYN | _RST | _ACK) == _SYN:
        return REQUEST, sequence
    if not flags & _ACK:
        return None  # the reset of a stack that did not ask
    return {_SYN | _ACK: (ANSWER, acknowledged - 1), _RST | _ACK: (RESET, acknowledged - 1)}.get(flags & (_SYN | _RST | _ACK))


def _write_udp(packet, addresses):
    payload = struct.pack("!4sI", b"ask " if packet.kind == REQUEST else b"told", packet.number)
    head = struct.pack("!HHHH", packet.source_port, packet.port, 8 + len(payload), 0)
    return _with_checksum(head + payload, 6, "udp", addresses)


def _read_udp(payload):
    if len(payload) < 16:
        return None
    word, number = struct.unpack_from("!4sI", payload, 8)
    return {b"ask ": (REQUEST, number), b"told": (ANSWER, number)}.get(word)


def _write_sctp(packet, _addresses):
    asks = packet.kind == REQUEST
    # An INIT offers its tag, and every packet of the other side begins with it.
    head = struct.pack("!HHII", packet.source_port, packet.port, 0 if asks else packet.number, 0)
    chunk = struct.pack("!BBHIIHHI", _INIT if asks else _INIT_ACK, 0, 20, packet.number, 65536, 1, 1, 1)
    return head[:8] + struct.pack("<I", _crc32c(head + chunk)) + chunk


def _read_sctp(payload):
    if len(payload) < 20:
        return None
    number, = struct.unpack_from("!I", payload, 16)
    return {_INIT: (REQUEST, number), _INIT_ACK: (ANSWER, number)}.get(payload[12])


@functools.lru_cache(maxsize=1)
def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


def _crc32c(data):
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


_WRITERS = {"tcp": _write_tcp, "udp": _write_udp, "sctp": _write_sctp}
_READERS = {"tcp": _read_tcp, "udp": _read_udp, "sctp": _read_sctp}
