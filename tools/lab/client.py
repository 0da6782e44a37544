"""One request from inside a namespace, and what became of it."""

import dataclasses
import errno
import json
import socket
import time

ANSWERED = "answered"
REFUSED = "refused"  # a TCP reset or an ICMP "port unreachable": somebody said no
UNREACHABLE = "unreachable"  # an ICMP "no route": nobody knows the address
TIMEOUT = "timeout"  # silence

_IP_RECVERR = 11
_IPV6_RECVERR = 25

_KINDS = {
    errno.ECONNREFUSED: REFUSED,
    errno.ECONNRESET: REFUSED,
    errno.ENETUNREACH: UNREACHABLE,
    errno.EHOSTUNREACH: UNREACHABLE,
    errno.EACCES: UNREACHABLE,
    errno.EINVAL: UNREACHABLE,  # 127.0.0.1 was rewritten to an address that loopback may not reach
}


@dataclasses.dataclass(frozen=True)
class Result:
    """kind is one of the words above; the rest is known only when answered."""

    kind: str
    pod: str | None = None  # who answered
    port: int | None = None  # and on which of its ports
    source: str | None = None  # the client's address as the pod saw it
    source_port: int | None = None
    local: str | None = None  # the pod's own address
    length: int | None = None  # how much of the payload arrived
    seconds: float = 0.0

    def __str__(self):
        if self.kind != ANSWERED:
            return self.kind
        return f"answered by {self.pod}:{self.port}, which saw {self.source}"


def page(netns, port, path):
    """The body of a page that a server on 127.0.0.1 inside `netns` shows; OSError while nobody serves it."""
    with netns.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(5.0)
        sock.connect(("127.0.0.1", port))
        sock.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        text = b""
        while block := sock.recv(65536):
            text += block
    return text.partition(b"\r\n\r\n")[2].decode()


def request(netns, proto, address, port, *, source=None, source_port=0, payload=b"", timeout=1.0):
    """Sends one request from `netns` and waits for its answer.

    proto is "tcp" or "udp". `source` and `source_port` choose the local end; by default the kernel does.
    """
    began = time.monotonic()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kind = socket.SOCK_STREAM if proto == "tcp" else socket.SOCK_DGRAM
    with netns.socket(family, kind) as sock:
        try:
            sock.settimeout(timeout)
            # Without this a "no route" is kept from UDP sockets and looks like silence.
            sock.setsockopt(*((socket.IPPROTO_IPV6, _IPV6_RECVERR, 1) if family == socket.AF_INET6
                              else (socket.IPPROTO_IP, _IP_RECVERR, 1)))
            if source or source_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((source or ("::" if family == socket.AF_INET6 else "0.0.0.0"), source_port))
            sock.connect((address, port))
            body = _ask_tcp(sock, payload) if proto == "tcp" else _ask_udp(sock, payload)
            return Result(ANSWERED, seconds=time.monotonic() - began, **json.loads(body))
        except TimeoutError:
            fate = TIMEOUT
        except OSError as error:
            if error.errno not in _KINDS:
                raise
            fate = _KINDS[error.errno]
    return Result(fate, seconds=time.monotonic() - began)


def _ask_tcp(sock, payload):
    sock.sendall(b"POST / HTTP/1.1\r\nHost: lab\r\nContent-Length: %d\r\n\r\n" % len(payload) + payload)
    data = b""
    while block := sock.recv(65536):
        data += block
    if not data:
        raise ConnectionResetError(errno.ECONNRESET, "closed without an answer")
    return data.partition(b"\r\n\r\n")[2]


def _ask_udp(sock, payload):
    try:
        sock.send(payload or b"\0")
    except PermissionError:
        pass  # a rule of this very node stopped it; whether with a refusal or in silence, recv() will tell
    return sock.recv(65536)
