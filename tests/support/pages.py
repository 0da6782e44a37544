"""Pages of a server inside a network namespace, with whatever headers a test wants to send."""

import dataclasses
import gzip
import http.client
import socket


@dataclasses.dataclass(frozen=True)
class Page:
    status: int
    headers: dict  # names in lower case
    body: bytes

    @property
    def text(self):
        body = gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body
        return body.decode()


def ask(netns, port, path, method="GET", headers=None, body=None):
    """What a server on 127.0.0.1 inside `netns` answers; OSError while nobody serves it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with netns.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect(("127.0.0.1", port))
        connection.sock = sock
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return Page(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
