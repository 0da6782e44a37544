"""An API server with all its answers made beforehand: Services and EndpointSlices in protobuf, which is what proxies ask for.

It listens on this machine's loopback, which a virtual machine with user networking reaches as its gateway, so that what it
costs is not taken from what is measured. Beside the API it answers two requests of the benchmark:

    POST /replace?service=3&turn=1    the first endpoint of that service gets another address; answered when it has been told
    GET /told                         for how many seconds the state has been told to everybody who began a watch; and a clock
"""

import json
import socket
import time

import fake_api
from beside import service_of, slice_of
from lab import objects

HEAD = fake_api.HEAD.replace(b"application/json", b"application/vnd.kubernetes.protobuf;stream=watch")
NODE = "node1"
_FIRST_VERSION = 100

# Fields of messages: name: (number, fields of the message in it, or None for text, numbers and truth values). A "map" is one
# of texts.
_META = {"name": (1, None), "namespace": (3, None), "uid": (5, None), "resourceVersion": (6, None), "labels": (11, "map"),
         "annotations": (12, "map")}
_PORT = {"name": (1, None), "protocol": (2, None), "port": (3, None)}
_FIELDS = {
    "Service": {"metadata": (1, _META), "spec": (2, {
        "ports": (1, _PORT), "clusterIP": (3, None), "type": (4, None), "sessionAffinity": (7, None), "ipFamilyPolicy": (17, None),
        "clusterIPs": (18, None), "ipFamilies": (19, None), "internalTrafficPolicy": (22, None)}),
        "status": (3, {"loadBalancer": (1, {})})},
    "EndpointSlice": {"metadata": (1, _META), "endpoints": (2, {
        "addresses": (1, None), "conditions": (2, {"ready": (1, None), "serving": (2, None), "terminating": (3, None)}),
        "nodeName": (6, None)}), "ports": (3, _PORT), "addressType": (4, None)},
}
_VERSIONS = {"Service": "v1", "EndpointSlice": "discovery.k8s.io/v1"}


def _varint(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _bytes(number, value):
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _field(number, inner, value):
    if isinstance(value, list):
        return b"".join(_field(number, inner, one) for one in value)
    if inner == "map":
        return b"".join(_bytes(number, _bytes(1, key.encode()) + _bytes(2, text.encode())) for key, text in value.items())
    if isinstance(value, dict):
        return _bytes(number, _message(inner, value))
    return _bytes(number, value.encode()) if isinstance(value, str) else _varint(number << 3) + _varint(int(value))


def _message(fields, value):
    return b"".join(_field(*fields[key], one) for key, one in value.items())


def _event(what, kind, one):
    """An event of a watch, as a chunk of the answer. The object is in runtime.Unknown, behind the magic number."""
    known = {key: value for key, value in one.items() if key not in ("kind", "apiVersion")}
    unknown = _bytes(1, _bytes(1, _VERSIONS[kind].encode()) + _bytes(2, kind.encode())) + _bytes(2, _message(_FIELDS[kind], known))
    event = _bytes(1, what.encode()) + _bytes(2, _bytes(1, b"k8s\0" + unknown))
    return fake_api.chunk(len(event).to_bytes(4, "big") + event)


def _with_version(one, version):
    return {**one, "metadata": {**one["metadata"], "uid": "5d1e9e20-7d4a-4a3c-9f0e-000000000000", "resourceVersion": str(version)}}


def _state(kind, made):
    """Everything that a watch begins with."""
    end = {"metadata": {"resourceVersion": str(_FIRST_VERSION), "annotations": {"k8s.io/initial-events-end": "true"}}}
    return b"".join(_event("ADDED", kind, _with_version(one, 7)) for one in made) + _event("BOOKMARK", kind, end)


class PreparedApi(fake_api.FakeApi):
    """So many Services with so many endpoints each, from its construction to close(). Whoever begins a watch gets the state
    without what has been replaced."""

    def __init__(self, services, endpoints, node_ip):
        self._endpoints = endpoints
        self._prepared = {"services": _state("Service", map(service_of, range(services))),
                          "endpointslices": _state("EndpointSlice", (slice_of(one, endpoints) for one in range(services)))}
        self._told = 0.0
        super().__init__(socket, [objects.node(NODE, [node_ip], ["10.244.1.0/24"])])

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    def _watch(self, connection, resource, with_state):
        if resource not in self._prepared:
            super()._watch(connection, resource, with_state)
            return
        with self._lock:
            connection.sendall(HEAD + (self._prepared[resource] if with_state else b""))
            self._watches.append((resource, connection))
            self._told = time.monotonic()
        while connection.recv(1024):  # until it is closed
            pass

    def _answer(self, connection, method, resource, query):
        if resource == "replace":
            self._replace(int(query["service"]), int(query["turn"]))
            self._tell(connection, {})
        elif resource == "told":
            self._tell(connection, {"seconds": time.monotonic() - self._told, "clock": time.monotonic()})
        else:
            super()._answer(connection, method, resource, query)

    @staticmethod
    def _tell(connection, answer):
        text = json.dumps(answer).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))

    def _replace(self, service, turn):
        with self._lock:
            self._version += 1
            event = _event("MODIFIED", "EndpointSlice", _with_version(slice_of(service, self._endpoints, turn), self._version))
            for watch in list(self._watches):
                if watch[0] == "endpointslices":
                    self._send(watch, event)

    def _send(self, watch, event):
        try:
            watch[1].sendall(event)
        except OSError:  # that proxy has ended
            self._watches.remove(watch)
