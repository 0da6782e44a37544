"""What the kernel tells of the nf_tables of one network namespace, by netlink: its generation, and who changes what."""

import dataclasses
import socket
import struct

_NETLINK_NETFILTER = 12
_SOL_NETLINK, _ADD_MEMBERSHIP, _NFTABLES_GROUP = 270, 1, 7
_SO_RCVBUFFORCE = 33
_SUBSYSTEM = 10
_KINDS = {0: "add table", 2: "delete table", 3: "add chain", 5: "delete chain", 6: "add rule", 8: "delete rule",
          9: "add set", 11: "delete set", 12: "add element", 14: "delete element"}
_NEW_GENERATION, _GET_GENERATION = 15, 16
_GENERATION_ID, _PROCESS_NAME = 1, 3
_TABLE, _SET, _ELEMENTS = 1, 2, 3
_FAMILIES = {socket.AF_INET: "ip", socket.AF_INET6: "ip6"}
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")


def generation(netns):
    """A number that every transaction increases, whatever it is about."""
    with _open(netns) as sock:
        sock.send(_HEADER.pack(_HEADER.size + 4, _SUBSYSTEM << 8 | _GET_GENERATION, 1, 1, 0) + bytes(4))
        kind, _, attributes = next(_messages(sock.recv(1 << 16)))
    assert kind == _NEW_GENERATION
    return struct.unpack(">I", attributes[_GENERATION_ID])[0]


@dataclasses.dataclass(frozen=True)
class Transaction:
    """Everything that became valid in one moment."""

    process: str  # the name of the thread that wrote it
    changes: list  # of (what, family, table, set if it is about an element)

    def of_table(self, family, table):
        return [change for change in self.changes if change[1:3] == (family, table)]


class Monitor:
    """Hears of every transaction from its construction to close()."""

    def __init__(self, netns):
        self._transactions = []
        self._changes = []  # of the one that has not ended
        self._socket = _open(netns)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, _NFTABLES_GROUP)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._socket.close()

    def transactions(self, family="ip", table="kube-proxy"):
        """Those so far that changed the table."""
        while True:
            try:
                data = self._socket.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            for message in _messages(data):
                self._hear(*message)
        return [one for one in self._transactions if one.of_table(family, table)]

    def _hear(self, kind, family, attributes):
        if kind == _NEW_GENERATION:
            name = attributes.get(_PROCESS_NAME, b"").rstrip(b"\0").decode()
            self._transactions.append(Transaction(name, self._changes))
            self._changes = []
        elif kind in _KINDS:
            table, name = (attributes.get(one, b"").rstrip(b"\0").decode(errors="replace") for one in (_TABLE, _SET))
            elements = "element" in _KINDS[kind]
            change = (_KINDS[kind], _FAMILIES.get(family, str(family)), table, name if elements else "")
            self._changes += [change] * (len(list(_attributes(attributes[_ELEMENTS]))) if elements else 1)


def _open(netns):
    with netns.entered():
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
    sock.bind((0, 0))
    return sock


def _messages(data):
    """The kind, the family and the attributes of each message."""
    while data:
        length, kind = _HEADER.unpack_from(data)[:2]
        if kind >> 8 == _SUBSYSTEM:
            yield kind & 0xFF, data[_HEADER.size], dict(_attributes(data[_HEADER.size + 4:length]))
        data = data[length + 3 & ~3:]


def _attributes(data):
    while data:
        length, kind = _ATTRIBUTE.unpack_from(data)
        yield kind & 0x3FFF, data[4:length]
        data = data[length + 3 & ~3:]
