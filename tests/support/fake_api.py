"""An API server for tests that need no real one: it streams its objects as JSON, and misbehaves when it is told to."""

import contextlib
import json
import socket
import threading
import urllib.parse

KINDS = {"services": "Service", "endpointslices": "EndpointSlice", "servicecidrs": "ServiceCIDR", "nodes": "Node"}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(kind, one):
    return json.dumps({"type": kind, "object": one}).encode() + b"\n"


def bookmark(resource, version, end_of_state=False):
    metadata = {"resourceVersion": str(version)}
    if end_of_state:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    versions = {"endpointslices": "discovery.k8s.io/v1", "servicecidrs": "networking.k8s.io/v1"}
    return event("BOOKMARK", {"kind": KINDS[resource], "apiVersion": versions.get(resource, "v1"), "metadata": metadata})


class FakeApi:
    """Serves inside a network namespace from its construction to close(). `objects` are what it holds.

    `misbehave` is None, or a function of the connection and the resource that answers a watch of Services in its own
    way, and a list of them too if `lists_as_well`.
    """

    def __init__(self, netns, objects):
        self.objects = objects
        self.misbehave = None
        self.lists_as_well = False
        self.requests = []  # (method, path, query, body)
        self._watches = []
        self._version = 100
        self._lock = threading.Lock()
        self._listener = netns.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(50)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()
        self.hang_up()

    def hang_up(self):
        """Ends every watch that is open."""
        with self._lock:
            for _, connection in self._watches:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._watches.clear()

    def send(self, resource, *events):
        """Sends bytes to everybody who watches that resource."""
        with self._lock:
            for watched, connection in self._watches:
                if watched == resource:
                    connection.sendall(b"".join(map(chunk, events)))

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError), connection:
            stream = connection.makefile("rb")
            while line := stream.readline():
                method, target, _ = line.decode().split(" ")
                headers = dict(iter(lambda: stream.readline().decode().lower().strip().partition(": ")[::2], ("", "")))
                body = stream.read(int(headers.get("content-length", 0)))
                url = urllib.parse.urlsplit(target)
                query = dict(urllib.parse.parse_qsl(url.query))
                self.requests.append((method, url.path, query, body))
                self._answer(connection, method, url.path.rpartition("/")[2], query)

    def _answer(self, connection, method, resource, query):
        if method != "GET":
            connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        elif self.misbehave and resource == "services" and ("watch" in query or self.lists_as_well):
            self.misbehave(connection, resource)
            connection.shutdown(socket.SHUT_RDWR)
        elif "watch" in query:
            self._watch(connection, resource, "sendInitialEvents" in query)
        else:
            items = self._items(resource)
            answer = json.dumps({"kind": KINDS[resource] + "List", "apiVersion": "v1",
                                 "metadata": {"resourceVersion": str(self._version)}, "items": items}).encode()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)

    def _watch(self, connection, resource, with_state):
        connection.sendall(HEAD)
        if with_state:
            for one in self._items(resource):
                connection.sendall(chunk(event("ADDED", one)))
            connection.sendall(chunk(bookmark(resource, self._version, True)))
        with self._lock:
            self._watches.append((resource, connection))
        while connection.recv(1024):  # until it is closed
            pass

    def _items(self, resource):
        return [{**one, "metadata": {**one["metadata"], "resourceVersion": "7"}} for one in self.objects if one["kind"] == KINDS[resource]]
