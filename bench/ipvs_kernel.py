"""What a network namespace holds for mode ipvs, and what a proxy asks its kernel for."""

import collections
import contextlib
import os
import pathlib
import re
import socket
import struct
import subprocess

TRACING = pathlib.Path("/sys/kernel/tracing")

_NETLINK_GENERIC = 16
_REQUEST, _DUMP = 0x1, 0x300
_DONE, _ERROR = 3, 2
_CTRL, _CTRL_GETFAMILY, _CTRL_FAMILY_ID, _CTRL_FAMILY_NAME = 16, 3, 1, 2
_GET_DEST, _SERVICE, _DEST = 8, 1, 2  # IPVS_CMD_GET_DEST, IPVS_CMD_ATTR_SERVICE, IPVS_CMD_ATTR_DEST
_AF, _PROTOCOL, _ADDR, _PORT = 1, 2, 3, 4  # IPVS_SVC_ATTR_*
_NESTED = 0x8000


def _attribute(kind, value):
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def _attributes(data):
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3fff] = data[4:length]
        data = data[length + 3 & ~3:]
    return found


class Servers:
    """Reads the real servers of one virtual server, without going through all of them."""

    def __init__(self, netns):
        with netns.entered():
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC)
        self._socket.settimeout(30)
        reply = self._ask(_CTRL, 0, _CTRL_GETFAMILY, _attribute(_CTRL_FAMILY_NAME, b"IPVS\0"), 1)
        self._family = struct.unpack("=H", _attributes(reply[0])[_CTRL_FAMILY_ID])[0]

    def close(self):
        self._socket.close()

    def reals(self, address, port):
        """The addresses of the real servers of this TCP server."""
        service = (_attribute(_AF, struct.pack("=H", socket.AF_INET)) + _attribute(_PROTOCOL, struct.pack("=H", socket.IPPROTO_TCP))
                   + _attribute(_ADDR, socket.inet_aton(address) + bytes(12)) + _attribute(_PORT, struct.pack(">H", port)))
        found = self._ask(self._family, _DUMP, _GET_DEST, _attribute(_SERVICE | _NESTED, service))
        # The first attribute of a real server is its address.
        return {socket.inet_ntoa(_attributes(_attributes(one)[_DEST])[1][:4]) for one in found}

    def _ask(self, family, flags, command, body, most=None):
        """What the messages of the answer hold: so many of them, or all of a dump."""
        message = struct.pack("=BBH", command, 1, 0) + body
        self._socket.send(struct.pack("=IHHII", len(message) + 16, family, _REQUEST | flags, 1, 0) + message)
        found = []
        while most is None or len(found) < most:
            data = self._socket.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", data, 16)[0], "IPVS")
                found.append(data[20:length])
                data = data[length + 3 & ~3:]
        return found


def _count(netns, argv, pattern):
    done = subprocess.run(["ip", "netns", "exec", netns.name, *argv], capture_output=True, text=True, check=False)
    return [int(one) if one.isdigit() else 1 for one in re.findall(pattern, done.stdout, re.MULTILINE)]


def held(netns):
    """How many virtual servers, real servers, addresses and entries of sets there are. Goes through all of them."""
    with netns.entered():
        text = pathlib.Path("/proc/thread-self/net/ip_vs").read_text(encoding="ascii")
    return {"virtual servers": len(re.findall("^TCP ", text, re.MULTILINE)), "real servers": text.count("\n  -> ") - 1,
            "addresses": len(_count(netns, ["ip", "-o", "-4", "address", "show", "dev", "kube-ipvs0"], "^.+$")),
            "entries of sets": sum(_count(netns, ["ipset", "list", "-terse"], r"^Number of entries: (\d+)"))}


class Requests:
    """Counts the messages that processes send to the kernel over netlink, and the programs that they start, by probes.

    Each message passes one of these functions, except those of a batch for nf_tables, which counts as one.
    """

    PROBES = {"generic": "genl_rcv_msg", "route": "rtnetlink_rcv_msg", "netfilter": "nfnetlink_rcv_msg", "batch": "nfnetlink_rcv_batch"}
    _GROUP = "kpbench"

    def __init__(self):
        for name, symbol in self.PROBES.items():
            self._define(f"p:{self._GROUP}/{name} {symbol}")
        self._instance = TRACING / "instances" / self._GROUP
        self._instance.mkdir()
        self._write("buffer_size_kb", "16384")
        self._write("options/event-fork", "1")

    def close(self):
        self._instance.rmdir()
        for name in self.PROBES:
            self._define(f"-:{self._GROUP}/{name}")

    @contextlib.contextmanager
    def counted(self, pid):
        """Yields a dictionary that has the counts at the end of the with block: of this process and of what it starts."""
        counts = {}
        self._write("set_event_pid", " ".join(os.listdir(f"/proc/{pid}/task")))
        self._write("trace", "")
        events = [f"events/{self._GROUP}/enable", "events/sched/sched_process_exec/enable"]
        for one in events:
            self._write(one, "1")
        try:
            yield counts
        finally:
            for one in events:
                self._write(one, "0")
            seen = collections.Counter(re.findall(r": (\w+): ", (self._instance / "trace").read_text(encoding="utf-8")))
            counts |= {"programs": seen.pop("sched_process_exec", 0), "messages": sum(seen.values()), "kinds": dict(seen)}
            self._write("set_event_pid", "")

    def _write(self, name, text):
        (self._instance / name).write_text(text, encoding="ascii")

    @staticmethod
    def _define(line):
        # Not open(..., "a"), which looks for the end of the file: this one has none.
        fd = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, line.encode() + b"\n")
        finally:
            os.close(fd)
