"""A quick client: one HTTPS request an object over connections that stay open, without a process for each."""

import http.client
import json
import socket
import ssl
import threading

# kind -> (where its API is, its plural, does it live in a namespace?)
KINDS = {
    "Namespace": ("/api/v1", "namespaces", False),
    "Node": ("/api/v1", "nodes", False),
    "Service": ("/api/v1", "services", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices", True),
    "ServiceCIDR": ("/apis/networking.k8s.io/v1", "servicecidrs", False),
    "IPAddress": ("/apis/networking.k8s.io/v1", "ipaddresses", False),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
}
WITH_STATUS = {"Node", "Service"}
JSON = "application/json"
# A server-side apply: creates what is not there, and leaves out what the last one had and this one has not.
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The server's own words, and its status code."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class _Connection(http.client.HTTPSConnection):
    """HTTPS from inside a network namespace."""

    def __init__(self, netns, address, port, context, timeout):
        super().__init__(address, port, context=context, timeout=timeout)
        self._netns, self._tls = netns, context

    def connect(self):
        plain = self._netns.socket(socket.AF_INET, socket.SOCK_STREAM)
        plain.settimeout(self.timeout)
        plain.connect((self.host, self.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)


class Client:
    """May be used from any thread: each has a connection of its own."""

    def __init__(self, netns, address, port, authority, certificate, timeout=30.0):
        self._where = (netns, address, port)
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(*map(str, certificate))
        self._timeout = timeout
        self._local = threading.local()

    # Objects

    def put(self, *objects):
        """Creates or changes objects, and their status where they have one."""
        for one in objects:
            self.apply(one)
            if one["kind"] in WITH_STATUS and "status" in one:
                self.put_status(one)

    def apply(self, one):
        """One server-side apply; returns what came of it. Leaves the status alone, as the server would."""
        return self.call("PATCH", path_of(one) + "?fieldManager=lab&force=true", without_status(one), APPLY)

    def put_status(self, one):
        """A merge, as an apply refuses a Node with two addresses of one type."""
        self.call("PATCH", path_of(one) + "/status", {"status": one["status"]}, MERGE)

    def create(self, one):
        return self.call("POST", path_of(one).rpartition("/")[0], one)

    def get(self, one):
        """The object as the server has it, or None."""
        try:
            return self.call("GET", path_of(one))
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def delete(self, *objects):
        """Deletes objects; one that is not there is no error."""
        for one in objects:
            try:
                self.call("DELETE", path_of(one))
            except ApiError as error:
                if error.code != 404:
                    raise

    def list(self, kind):
        """All objects of a kind, in all namespaces, each with the kind and apiVersion that lists leave out."""
        place, plural, _ = KINDS[kind]
        version = place.removeprefix("/apis/").removeprefix("/api/")
        items = self.call("GET", f"{place}/{plural}").get("items") or []
        return [{"apiVersion": version, "kind": kind, **one} for one in items]

    # Requests

    def call(self, method, path, body=None, content_type=JSON):
        """One request; returns what the server says, raises ApiError when it says no. A connection that broke while
        it was idle is replaced once."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": JSON, **({"Content-Type": content_type} if data is not None else {})}
        fresh = not getattr(self._local, "connection", None)
        try:
            code, text = self._exchange(method, path, data, headers)
        except (OSError, http.client.HTTPException):
            self.close()
            if fresh:
                raise
            code, text = self._exchange(method, path, data, headers)
        if code >= 300:
            raise ApiError(code, _message(text))
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def close(self):
        """Ends this thread's connection."""
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection:
            connection.close()

    def _exchange(self, method, path, data, headers):
        if not getattr(self._local, "connection", None):
            self._local.connection = _Connection(*self._where, self._context, self._timeout)
        self._local.connection.request(method, path, data, headers)
        response = self._local.connection.getresponse()
        return response.status, response.read()


def path_of(one):
    """Where an object lives on the server."""
    place, plural, namespaced = KINDS[one["kind"]]
    metadata = one.get("metadata", {})
    inside = f"/namespaces/{metadata.get('namespace') or 'default'}" if namespaced else ""
    return f"{place}{inside}/{plural}/{metadata.get('name', '')}"


def without_status(one):
    return {key: value for key, value in one.items() if key != "status"}


def _message(text):
    try:
        return json.loads(text)["message"]
    except (ValueError, KeyError):
        return text.decode(errors="replace").strip()
