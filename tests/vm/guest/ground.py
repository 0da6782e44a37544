"""A node with pods in mode ipvs, for suites that send traffic: servers and clients are threads of the suite itself, as
each process costs half a second in emulation."""

import collections
import contextlib
import functools
import itertools
import os
import socket
import struct
import threading

import ipvsstate
import lab
import sandbox
from api_source import ApiSource
from fake_api import FakeApi, event
from lab import objects

SCTP = 132
PORT = 8080
PODS = ("web1", "web2", "web3")
KINDS = {"tcp": (socket.SOCK_STREAM, socket.IPPROTO_TCP), "udp": (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
         "sctp": (socket.SOCK_STREAM, SCTP)}

_numbers = itertools.count(1)


def open_socket(netns, protocol, address):
    kind, number = KINDS[protocol]
    with netns.entered():
        return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind, number)


class Server:
    """Answers on one port of a pod: "NAME SOURCE", at the begin of a connection and for each line (or datagram)."""

    def __init__(self, netns, name, protocol, port=PORT):
        self._name = name
        self._sock = open_socket(netns, protocol, "::")
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._sock.bind(("::", port))
        if protocol != "udp":
            self._sock.listen(64)
        serve = self._serve_datagrams if protocol == "udp" else self._accept
        threading.Thread(target=serve, daemon=True).start()

    def close(self):
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _answer(self, peer):
        return f"{self._name} {peer[0].removeprefix('::ffff:')}\n".encode()

    def _serve_datagrams(self):
        with contextlib.suppress(OSError):
            while True:
                data, peer = self._sock.recvfrom(2048)
                if not data:  # closed
                    return
                self._sock.sendto(self._answer(peer), peer)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                conn, peer = self._sock.accept()
                threading.Thread(target=self._serve, args=(conn, peer), daemon=True).start()

    def _serve(self, conn, peer):
        with contextlib.suppress(OSError), conn:
            conn.sendall(self._answer(peer))
            while conn.recv(2048):
                conn.sendall(self._answer(peer))


class Connection:
    """A client's end. `pod` is who answers, `source` whom it sees."""

    def __init__(self, netns, protocol, address, port, timeout=2.0, source=None, source_port=0):
        self._sock = open_socket(netns, protocol, address)
        try:
            self._sock.settimeout(timeout * lab.SLACK)
            if source or source_port:
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._sock.bind((source or "", source_port))
            self._sock.connect((address, port))
            if protocol == "udp":
                self._sock.send(b"hello\n")
            self.pod, self.source = self._sock.recv(2048).decode().split()
        except BaseException:
            self._sock.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def still_works(self):
        """Whether the same pod still answers."""
        self._sock.sendall(b"hello\n")
        return self._sock.recv(2048).decode().split()[0] == self.pod

    def reset(self):
        """Ends it at once, without waiting for what is on its way."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        self._sock.close()


class ApiObjects:
    """The objects of an API server for tests; used like lab.Manifests."""

    def __init__(self, cluster):
        self.server = FakeApi(cluster["node1"].netns, [])
        source = ApiSource(cluster, self.server)
        self.flags = source.flags
        self.config = lab.daemon.merge(source.config, {"clientConnection": {"contentType": "application/json"}})
        self._versions = 1000

    def put(self, *made):
        for one in made:
            known = self._find(objects.key(one))
            self._versions += 1
            one = {**one, "metadata": {**one["metadata"], "resourceVersion": str(self._versions)}}
            self.server.objects = [other for other in self.server.objects if other is not known] + [one]
            self.server.send(_resource(one), event("MODIFIED" if known else "ADDED", one))

    def delete(self, *keys):
        for key in keys:
            known = self._find(key)
            self.server.objects = [other for other in self.server.objects if other is not known]
            self.server.send(_resource(known), event("DELETED", known))

    def _find(self, key):
        return next((one for one in self.server.objects if objects.key(one) == key), None)


def _resource(one):
    return {"Service": "services", "EndpointSlice": "endpointslices", "Node": "nodes"}[one["kind"]]


class Ground:
    """node1 with web1, web2, web3 and client1 on it, and ext1 outside. No proxy runs until start()."""

    def __init__(self, protocols=("tcp",), source=os.environ.get("KP_SOURCE", "manifests"), dual_stack=False):
        self.cluster = lab.Cluster(f"kpg{next(_numbers)}", nodes={"node1": "zone-a"}, pods=dict.fromkeys((*PODS, "client1"), "node1"),
                                   outsiders={"ext1": "node1"}, dual_stack=dual_stack)
        self.netns = self.cluster["node1"].netns
        for pod in PODS:
            for protocol in protocols:
                self.cluster.adopt(Server(self.cluster[pod].netns, pod, protocol))
        self.objects = ApiObjects(self.cluster) if source == "api" else lab.Manifests(self.cluster.state / "manifests")
        self.objects.put(*self.cluster.node_objects())
        self.daemon = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.cluster.close()

    # The proxy

    def start(self, config=None, flags=(), mode="ipvs", binary=sandbox.BINARY):
        """Starts the proxy, with the period of a real one unless the configuration says otherwise."""
        base = {mode: {"syncPeriod": "30s", "minSyncPeriod": "0s"}}
        self.daemon = lab.Daemon(self.cluster, "node1", binary, self.objects, lab.Mode(mode),
                                 lab.daemon.merge(base, config or {}), flags)
        return self.daemon

    def stop(self):
        self.daemon.stop()
        if isinstance(self.objects, ApiObjects):
            self.objects.server.hang_up()  # or it would write to who is gone

    def clear(self):
        """Takes away the proxy and all that it has made."""
        if self.daemon:
            self.daemon.kill()
            self.daemon.log.unlink()
        self.daemon = None
        self.run("sh", "-c", "ipvsadm -C; nft flush ruleset; ip link del kube-ipvs0 2>/dev/null; true")
        # The kernel frees rules, which hold sets, a moment after they are gone.
        lab.wait_for(lambda: self.cluster.run("node1", ["ipset", "destroy"]).returncode == 0, "the sets are gone", every=0.2)

    # Services

    def put_service(self, name, ip, pods=PODS, protocol="TCP", port=80, annotations=None, node_port=None, **spec):
        """A Service with these pods."""
        kind = {"type": "NodePort"} if node_port else {}
        made = objects.service(name, ip, [objects.port(port, protocol, name="p", node_port=node_port)], **kind, **spec)
        if annotations:
            made["metadata"]["annotations"] = annotations
        self.put_endpoints(name, pods, protocol)
        self.objects.put(made)

    def put_endpoints(self, name, pods, protocol="TCP", **conditions):
        ends = [self.cluster.endpoint(pod, **conditions) for pod in pods]
        self.objects.put(objects.endpoint_slice(name, ends, [objects.port(PORT, protocol, name="p")]))

    def delete_service(self, name):
        self.objects.delete(("Service", "default", name), ("EndpointSlice", "default", f"{name}-a"))

    # What the kernel has

    def servers(self):
        return ipvsstate.servers(self.netns)

    def weights(self, server):
        """{"web1": weight...} of a virtual server such as "TCP 10.96.0.1:80"; None if there is none."""
        found = ipvsstate.weights(self.netns, server)
        return None if found is None else {self.pod_at(real): weight for real, weight in found.items()}

    def real(self, server, pod):
        """The real server of a pod, or None."""
        found = self.servers()[server].reals if server in self.servers() else {}
        return next((real for at, real in found.items() if self.pod_at(at) == pod), None)

    def pod_at(self, real):
        ip = real.rpartition(":")[0].strip("[]")
        return next((name for name in PODS if ip in (self.cluster[name].ipv4, self.cluster[name].ipv6)), real)

    def wait_weights(self, server, expected, seconds=30.0):
        """Waits until a virtual server has exactly these real servers: {"web1": weight...}, None for no server."""
        try:
            lab.wait_for(lambda: self.weights(server) == expected, "", seconds)
        except lab.NotInTime:
            ended = "" if self.daemon.running() else " (kube-proxy has ended)"
            raise AssertionError(f"{server} has {self.weights(server)}, not {expected}{ended}; the log ends:\n"
                                 + self.daemon.log_text()[-3000:]) from None

    def run(self, *argv, check=True):
        """Runs a program on the node, and returns what it prints."""
        done = self.cluster.run("node1", argv)
        assert done.returncode == 0 or not check, f"{argv}: {done.stderr}"
        return done.stdout

    # Traffic

    @functools.cached_property
    def sources(self):
        """More addresses of client1."""
        return self.cluster.add_sources("client1", 16)

    def connect(self, client, address, port=80, protocol="tcp", **options):
        return Connection(self.cluster[client].netns, protocol, address, port, **options)

    def who_answers(self, count, client, address, port=80, protocol="tcp", **options):
        """{pod: how often} for connections one after the other."""
        seen = collections.Counter()
        for _ in range(count):
            with self.connect(client, address, port, protocol, **options) as one:
                seen[one.pod] += 1
        return dict(seen)
