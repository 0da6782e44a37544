"""An API server whose objects change."""

import contextlib
import json

import fake_api
import lab
from api_source import ApiSource
from lab import objects

GONE = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
                   "message": "too old resource version"}).encode()
RESOURCES = {kind: resource for resource, kind in fake_api.KINDS.items()}


class Server(fake_api.FakeApi):
    """Every watch is told of every change. Changes are not remembered: who comes back after one must ask for everything."""

    def __init__(self, netns):
        self._held = {}
        self._changed = dict.fromkeys(fake_api.KINDS, 0)  # the version of the last change of each resource
        super().__init__(netns, [])

    def put(self, one):
        kind = "MODIFIED" if objects.key(one) in self._held else "ADDED"
        self._publish(kind, objects.key(one), one)

    def delete(self, key):
        self._publish("DELETED", key, self._held[key])

    def watched(self):
        """Whether somebody watches every resource."""
        with self._lock:
            return {resource for resource, _ in self._watches} == set(fake_api.KINDS)

    def _publish(self, kind, key, one):
        resource = RESOURCES[key[0]]
        with self._lock:
            self._version += 1
            self._changed[resource] = self._version
            self._held[key] = {**one, "metadata": {**one["metadata"], "resourceVersion": str(self._version)}}
            data = fake_api.chunk(fake_api.event(kind, self._held[key]))
            if kind == "DELETED":
                del self._held[key]
            for _, connection in [each for each in self._watches if each[0] == resource]:
                with contextlib.suppress(OSError):  # the proxy is gone
                    connection.sendall(data)

    def _answer(self, connection, method, resource, query):
        if method == "GET" and "watch" in query:
            from_version = None if "sendInitialEvents" in query else int(query.get("resourceVersion") or 0)
            self._tell_changes(connection, resource, from_version)
        else:
            with self._lock:  # a list is of the version that it says
                super()._answer(connection, method, resource, query)

    def _tell_changes(self, connection, resource, from_version):
        """From that version on, which must be the present one; without a version after all that is there."""
        with self._lock:  # no change between what is known and what will be told
            if from_version is not None and from_version < self._changed[resource]:
                connection.sendall(b"HTTP/1.1 410 Gone\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(GONE) + GONE)
                return
            connection.sendall(fake_api.HEAD)
            if from_version is None:
                events = [fake_api.event("ADDED", one) for one in self._items(resource)]
                events.append(fake_api.bookmark(resource, self._version, True))
                connection.sendall(b"".join(map(fake_api.chunk, events)))
            self._watches.append((resource, connection))
        try:
            while connection.recv(1024):  # until it is closed
                pass
        finally:
            with self._lock, contextlib.suppress(ValueError):
                self._watches.remove((resource, connection))

    def _items(self, resource):
        return [one for one in self._held.values() if one["kind"] == fake_api.KINDS[resource]]


class ApiObjects(lab.Manifests):
    """A folder of manifests, for whoever wants to compare, of which the proxy hears by an API server."""

    def __init__(self, cluster, folder):
        super().__init__(folder)
        self.server = Server(cluster["node1"].netns)
        source = ApiSource(cluster, self.server)
        self.flags, self.config = source.flags, source.config

    def put(self, *made):
        for one in made:
            if self._objects.get(objects.key(one)) != one:
                super().put(one)
                self.server.put(one)

    def delete(self, *keys):
        super().delete(*keys)
        for key in keys:
            self.server.delete(key)
