"""An API server for each node that says what it is told, in the place of a folder of manifests: for a proxy that reads no
folder, where a real control plane is too much."""

import json

import fake_api
from lab import objects

# What a proxy asks the API server to leave out.
_LEFT_OUT = {"service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"}
_RESOURCES = {kind: resource for resource, kind in fake_api.KINDS.items()}


class Api(fake_api.FakeApi):
    """Serves one node, on its localhost. Nothing is lost between the state that a watch begins with and what comes after."""

    def _watch(self, connection, resource, with_state):
        with self._lock:
            connection.sendall(fake_api.HEAD)
            if with_state:
                for one in self._items(resource):
                    connection.sendall(fake_api.chunk(fake_api.event("ADDED", one)))
                connection.sendall(fake_api.chunk(fake_api.bookmark(resource, self._version, True)))
            self._watches.append((resource, connection))
        while connection.recv(1024):  # until it is closed
            pass

    def tell(self, kind, one):
        """Sends an event to whoever watches, as the newest there is. A client passes over one whose version it has seen."""
        with self._lock:
            self._version += 1
            told = {**one, "metadata": {**one["metadata"], "resourceVersion": str(self._version)}}
            self.objects = [had for had in self.objects if objects.key(had) != objects.key(one)]
            if kind != "DELETED":
                self.objects.append(one)
            line = fake_api.chunk(fake_api.event(kind, told))
            for watched, connection in list(self._watches):
                if watched == _RESOURCES[one["kind"]]:
                    self._send(connection, watched, line)

    def _send(self, connection, watched, line):
        try:
            connection.sendall(line)
        except OSError:  # that proxy has ended
            self._watches.remove((watched, connection))


class StandIn:
    """Has the interface of lab.Manifests. `of(node)` is the source of that node's Daemon."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._objects = {}
        self._apis = {node: Api(cluster[node].netns, []) for node in cluster.nodes()}
        for api in self._apis.values():
            cluster.adopt(api)

    def of(self, node):
        return _Source(self._cluster.state / f"kubeconfig-{node}", self._apis[node].url)

    def put(self, *made):
        """Creates or changes objects."""
        for one in made:
            if self._objects.get(objects.key(one)) != one:
                self._tell("MODIFIED" if objects.key(one) in self._objects else "ADDED", one)
                self._objects[objects.key(one)] = one

    def delete(self, *keys):
        """Deletes objects, each given by (kind, namespace, name)."""
        for key in keys:
            self._tell("DELETED", self._objects.pop(key))

    def replace(self, made):
        """Makes the API hold exactly these objects."""
        wanted = {objects.key(one) for one in made}
        self.put(*made)
        self.delete(*(key for key in list(self._objects) if key not in wanted))

    def _tell(self, kind, one):
        """Tells every node; of Nodes it hears only about itself."""
        if _LEFT_OUT & one["metadata"].get("labels", {}).keys():
            kind = "DELETED"  # as what no longer matches what was asked for
        for node, api in self._apis.items():
            if one["kind"] != "Node" or one["metadata"]["name"] == node:
                api.tell(kind, one)


class _Source:
    def __init__(self, path, url):
        kubeconfig = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
                      "clusters": [{"name": "k", "cluster": {"server": url}}],
                      "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}
        path.write_text(json.dumps(kubeconfig), encoding="utf-8")
        self.flags = []
        self.config = {"clientConnection": {"kubeconfig": str(path), "contentType": "application/json"}}
