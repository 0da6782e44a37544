"""The healthz server and the health-check node ports, asked over the network as load balancers and kubelets do."""

import contextlib
import dataclasses
import json
import pathlib
import re
import socket

import fake_api
import pytest
import sandbox as boxes
import test_api
from lab import Cluster, Daemon, Manifests, Marker, Mode, objects, wait_for
from test_api import api, proxy  # noqa: F401  (fixtures)
from test_daemon import CONFIG, daemon, wait_until  # noqa: F401  (a fixture)

HEALTHZ = 10256
NODE = objects.node("node1", ["172.31.0.11", "fd00:31::11"], ["10.244.1.0/24"])
TIME = r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,8}[1-9])?(Z|[+-]\d\d:\d\d)"'


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict
    body: str

    def json(self):
        return json.loads(self.body)


def ask(netns, port, path="/", address="127.0.0.1", method="GET", body=""):
    """One request; OSError while nobody listens."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with netns.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(10.0)
        sock.connect((address, port))
        sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        text = b""
        while block := sock.recv(65536):
            text += block
    head, _, rest = text.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    return Answer(int(lines[0].split(" ")[1]), dict(line.split(": ", 1) for line in lines[1:]), rest.decode())


def status(netns, port, path="/", address="127.0.0.1"):
    """The status code, or None while nobody listens."""
    try:
        return ask(netns, port, path, address).status
    except OSError:
        return None


def wait_for_status(netns, port, expected, path="/", address="127.0.0.1", seconds=20):
    wait_until(lambda: status(netns, port, path, address) == expected, f"{expected} from port {port}{path} of {address}", seconds)


def listening(box):
    """The TCP ports that somebody in the namespace listens on."""
    text = box.run("cat", "/proc/net/tcp", "/proc/net/tcp6").stdout
    rows = [line.split() for line in text.splitlines() if ":" in line.split()[0]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def balancer(name="lb", ips="10.96.0.20", health=32100, node_port=30180, policy="Local", **spec):
    if policy == "Local":
        spec["healthCheckNodePort"] = health
    return objects.service(name, ips, [objects.port(80, node_port=node_port)], type="LoadBalancer", externalTrafficPolicy=policy, **spec)


def endpoints(*made, name="lb", suffix="a"):
    return objects.endpoint_slice(name, list(made), [objects.port(8080)], suffix=suffix)


def local(address="10.244.1.5", **conditions):
    return objects.endpoint(address, node="node1", **conditions)


def remote(address="10.244.2.5"):
    return objects.endpoint(address, node="node2")


@pytest.fixture
def served(daemon, box):  # noqa: F811
    """A daemon that follows objects, and the folder that they are put in."""
    def start(*made, **options):
        running = daemon(**options)
        running.objects = Manifests(running.manifests)
        running.objects.put(NODE, *made)
        return running

    return start


# healthz and livez.

def test_healthz_and_livez_say_how_the_proxy_is(served, box):
    served()
    wait_for_status(box.ns, HEALTHZ, 200, "/healthz")
    wait_until(lambda: set(ask(box.ns, HEALTHZ, "/livez").json()["status"]) == {"IPv4", "IPv6"}, "both families start")
    families = r'"status":\{"IPv4":\{"lastUpdated":TIME,"healthy":true\},"IPv6":\{"lastUpdated":TIME,"healthy":true\}\}\}'
    for path, eligible in {"/healthz": '"nodeEligible":true,', "/livez": ""}.items():
        answer = ask(box.ns, HEALTHZ, path)
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        expected = r'\{"lastUpdated":TIME,"currentTime":TIME,' + eligible + r'"healthy":true,' + families
        assert re.fullmatch(expected.replace("TIME", TIME), answer.body), answer.body
    assert ask(box.ns, HEALTHZ, "/other").body == "404 page not found\n"
    assert ask(box.ns, HEALTHZ, "/healthz", method="POST", body="x").status == 200
    assert ask(box.ns, HEALTHZ, "/healthz", method="HEAD").body == ""
    assert status(box.ns, HEALTHZ, "/healthz", "::1") == 200, "the default address serves both families"


def test_answers_of_healthz_and_livez_are_counted(served, box):
    served()
    wait_for_status(box.ns, HEALTHZ, 200, "/healthz")
    ask(box.ns, HEALTHZ, "/livez")
    metrics = ask(box.ns, test_api.METRICS_PORT, "/metrics").body
    assert re.search(r'kubeproxy_proxy_healthz_total\{code="200"\} [1-9]', metrics)
    assert 'kubeproxy_proxy_livez_total{code="200"} 1\n' in metrics


def changed_node(version, metadata=None, spec=None):
    return fake_api.event("MODIFIED", {**test_api.NODE, "metadata": {"name": "node1", "resourceVersion": str(version), **(metadata or {})},
                                       "spec": spec or {}})


def test_a_node_that_is_about_to_go_is_not_eligible(api, proxy, box):  # noqa: F811
    running = proxy()
    running.wait_for_rule("--to-destination 10.244.1.5:8080")
    wait_for_status(box.ns, HEALTHZ, 200, "/healthz")
    taints = [{"key": "other", "effect": "NoSchedule"}, {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule", "value": "1"}]
    api.send("nodes", changed_node(8, spec={"taints": taints}))
    wait_for_status(box.ns, HEALTHZ, 503, "/healthz")
    answer = ask(box.ns, HEALTHZ, "/healthz")
    assert '"nodeEligible":false,"healthy":true,' in answer.body
    assert answer.json()["lastUpdated"] != answer.json()["currentTime"]
    assert status(box.ns, HEALTHZ, "/livez") == 200
    api.send("nodes", changed_node(9, spec={"taints": taints[:1]}))
    wait_for_status(box.ns, HEALTHZ, 200, "/healthz")
    api.send("nodes", changed_node(10, metadata={"deletionTimestamp": "2026-11-15T20:43:16Z"}))
    wait_for_status(box.ns, HEALTHZ, 503, "/healthz")
    assert status(box.ns, HEALTHZ, "/livez") == 200


def test_a_proxy_that_cannot_sync_is_not_healthy(served, box):
    running = served(balancer(), endpoints(local()))
    wait_for_status(box.ns, 32100, 200)
    restore = pathlib.Path(box.programs) / "iptables-restore"
    target = restore.readlink()
    restore.unlink()
    restore.write_text("#!/bin/sh\ncat >/dev/null\nexit 1\n")
    restore.chmod(0o755)
    running.objects.put(endpoints(local("10.244.1.6")))
    wait_for_status(box.ns, HEALTHZ, 503, "/livez")
    told = ask(box.ns, HEALTHZ, "/healthz")
    assert told.status == 503
    assert (told.json()["healthy"], told.json()["nodeEligible"]) == (False, True)
    assert [told.json()["status"][family]["healthy"] for family in ("IPv4", "IPv6")] == [False, True]
    port = ask(box.ns, 32100)
    assert (port.status, port.json()["localEndpoints"], port.json()["serviceProxyHealthy"]) == (503, 1, False)
    restore.unlink()
    restore.symlink_to(target)
    wait_for_status(box.ns, HEALTHZ, 200, "/healthz")
    wait_for_status(box.ns, 32100, 200)


def hold(box, port, address="0.0.0.0"):
    holder = box.ns.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.bind((address, port))
    holder.listen(1)
    return holder


def test_an_address_that_is_taken_is_told_and_tried_again(served, box):
    with hold(box, HEALTHZ):
        running = served()
        running.wait_for_log(f'"Healthz server failed" err="failed to start proxy healthz on 0.0.0.0:{HEALTHZ}: '
                             f'listen tcp 0.0.0.0:{HEALTHZ}: bind: address already in use"')
        running.wait_for_log("Synced rules")
    wait_for_status(box.ns, HEALTHZ, 200, "/healthz")


def test_an_address_that_is_taken_ends_it_if_it_is_told_so(served, box):
    with hold(box, HEALTHZ):
        running = served(config=CONFIG + "bindAddressHardFail: true\n")
        assert running.process.wait(20) == 1
        assert "healthz server failed: failed to start proxy healthz" in running.log()


def test_nothing_else_listens(served, box):
    running = served(balancer(), endpoints(local()))
    wait_for_status(box.ns, 32100, 200)
    assert listening(box) == {test_api.METRICS_PORT, HEALTHZ, 32100}
    running.stop()
    running.start(config=CONFIG + 'healthzBindAddress: "192.168.77.1:10256"\nmetricsBindAddress: "192.168.77.1:10249"\n')
    wait_for_status(box.ns, HEALTHZ, 200, "/healthz", "192.168.77.1")
    assert status(box.ns, HEALTHZ, "/healthz") is None
    assert status(box.ns, test_api.METRICS_PORT, "/metrics") is None


# Health-check node ports.

def test_a_port_tells_the_endpoints_of_this_node(served, box):
    running = served(balancer(), endpoints(local(), local("10.244.1.6"), remote()), endpoints(local("10.244.1.6"), suffix="b"))
    wait_for_status(box.ns, 32100, 200)
    answer = ask(box.ns, 32100, "/some/path?x", address="172.31.0.11")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Load-Balancing-Endpoint-Weight"] == "2"
    assert answer.body == ('{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "lb"\n\t},\n'
                           '\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}')
    assert ask(box.ns, 32100, method="HEAD").headers["X-Load-Balancing-Endpoint-Weight"] == "2"
    assert ask(box.ns, 32100, method="POST", body="hello").status == 200
    running.objects.put(endpoints(remote()), endpoints(suffix="b"))
    wait_for_status(box.ns, 32100, 503)
    assert ask(box.ns, 32100).headers["X-Load-Balancing-Endpoint-Weight"] == "0"


def test_the_port_does_not_care_whether_the_node_is_eligible(api, proxy, box):  # noqa: F811
    api.objects = [test_api.NODE, balancer(), endpoints(local())]
    proxy()
    wait_for_status(box.ns, 32100, 200)
    api.send("nodes", changed_node(8, spec={"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}))
    wait_for_status(box.ns, HEALTHZ, 503, "/healthz")
    assert status(box.ns, 32100) == 200


def test_ports_open_and_close_as_services_change(served, box):
    running = served(balancer(), endpoints(local()))
    wait_for_status(box.ns, 32100, 200)
    running.objects.put(balancer(health=32101))
    wait_for_status(box.ns, 32101, 200)
    assert status(box.ns, 32100) is None
    running.objects.put(balancer(policy="Cluster"))
    wait_for_status(box.ns, 32101, None)
    running.objects.put(balancer(health=32102))
    wait_for_status(box.ns, 32102, 200)
    running.objects.delete(objects.key(balancer()))
    wait_for_status(box.ns, 32102, None)
    assert listening(box) == {test_api.METRICS_PORT, HEALTHZ}


def test_each_family_counts_its_own_endpoints(served, box):
    served(balancer(ips=["10.96.0.20", "fd00:10:96::20"]), endpoints(local()),
           endpoints(local("fd00:244:1::5"), local("fd00:244:1::6"), suffix="six"))
    wait_for_status(box.ns, 32100, 200)
    wait_for_status(box.ns, 32100, 200, address="::1")
    assert ask(box.ns, 32100).json()["localEndpoints"] == 1
    assert ask(box.ns, 32100, address="fd00:31::11").json()["localEndpoints"] == 2


def test_only_addresses_for_node_ports_listen(served, box):
    served(balancer(ips=["10.96.0.20", "fd00:10:96::20"]), endpoints(local()), config=CONFIG + "nodePortAddresses: [192.168.77.0/24]\n")
    wait_for_status(box.ns, 32100, 200, address="192.168.77.1")
    for other in ("127.0.0.1", "172.31.0.11"):
        assert status(box.ns, 32100, address=other) is None
    wait_for_status(box.ns, 32100, 503, address="fd00:31::11")  # nothing is said about this family: all its addresses


def test_a_port_that_is_taken_is_told_and_tried_again(api, proxy, box):  # noqa: F811
    api.objects = [test_api.NODE, test_api.SERVICE, test_api.SLICE, balancer(), endpoints(local())]
    with hold(box, 32100):
        running = proxy()
        running.wait_for_log('"Failed to start healthcheck" err=".*0.0.0.0:32100: bind: address already in use"')
        note = b'node node1 failed to start healthcheck "default/lb" on port 32100: '
        wait_until(lambda: any(b"FailedToStartServiceHealthcheck" in body and note in body for *_, body in list(api.requests)), "an event")
    moved = {**test_api.SLICE, "metadata": {**test_api.SLICE["metadata"], "resourceVersion": "8"}, "endpoints": [{"addresses": ["10.244.1.9"]}]}
    api.send("endpointslices", fake_api.event("MODIFIED", moved))
    wait_for_status(box.ns, 32100, 200)


def test_two_thousand_ports_at_once(served, box):
    count, first = 2000, 20_000
    many = [balancer(f"s{i}", f"10.100.{i // 250}.{i % 250 + 1}", first + i, node_port=None) for i in range(count)]
    running = served()
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*many, endpoints(local(), name="s7")]})
    running.write("many.json", text)
    wait_for_status(box.ns, first + count - 1, 503, seconds=60)
    wait_until(lambda: len(listening(box)) == count + 2, "all ports are open")
    assert status(box.ns, first + 7) == 200
    assert status(box.ns, HEALTHZ, "/livez") == 200
    running.write("many.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": []}))
    wait_until(lambda: listening(box) == {test_api.METRICS_PORT, HEALTHZ}, "all ports are closed", 60)


def test_slow_clients_do_not_starve_the_others(served, box):
    served(balancer(), endpoints(local()), balancer("other", "10.96.0.21", 32200, 30181), endpoints(local(), name="other"))
    wait_for_status(box.ns, 32100, 200)
    wait_for_status(box.ns, 32200, 200)
    with contextlib.ExitStack() as slow:
        for port in (32100, HEALTHZ):
            for _ in range(300):
                client = slow.enter_context(box.ns.socket(socket.AF_INET, socket.SOCK_STREAM))
                client.settimeout(10)
                client.connect(("127.0.0.1", port))
                client.sendall(b"GET / HTTP/1.1\r\nHo")
        for _ in range(20):
            assert status(box.ns, 32200) == 200
            assert status(box.ns, test_api.METRICS_PORT, "/proxyMode") == 200
        assert status(box.ns, HEALTHZ, "/livez") == 200
        assert status(box.ns, 32100) == 200


# Three nodes and real traffic: rows 29, 37 and 49 of the end-to-end cases. The only endpoint is web1 on node1.

LB_IP = "203.0.113.20"
POD_PORT = 8080


class Trio:
    def __init__(self, cluster, variant):
        self.cluster = cluster
        self.objects = Manifests(cluster.state / "manifests")
        self.objects.put(*cluster.node_objects())
        self._marker = Marker(cluster, self.objects, "web1", POD_PORT)
        self._daemons = [Daemon(cluster, node, boxes.BINARY, self.objects, Mode("iptables", variant)) for node in cluster.nodes()]

    def serve(self, policy, **conditions):
        """The load balancer with that policy and with web1 in that condition, on all nodes."""
        self.objects.put(balancer(policy=policy, load_balancer_ips=[LB_IP]), endpoints(self.cluster.endpoint("web1", **conditions)))
        self._marker.wait(self.cluster.nodes(), daemons=self._daemons)

    def checks(self, *expected):
        """The health-check port of each node answers so, asked from outside; None: it is closed."""
        for node, code in zip(self.cluster.nodes(), expected, strict=True):
            outside = self.cluster["ext1"].netns
            wait_for(lambda: status(outside, 32100, address=self.cluster.address(node)) == code, f"{code} from {node}", 20)  # noqa: B023

    def fate(self, client, host, port):
        address = self.cluster.address(host) if host in self.cluster.members else host
        result = self.cluster.request(client, "tcp", address, port)
        return result.pod or result.kind


@pytest.fixture(scope="module")
def trio(request):
    nodes = {"node1": "zone-a", "node2": "zone-b", "node3": "zone-c"}
    pods = {"web1": "node1", "client1": "node1", "client2": "node2"}
    with Cluster("kph", nodes, pods, {"ext1": "node1", "ext3": "node3"}) as cluster:
        cluster.serve("web1", tcp=[POD_PORT])
        cluster.wait_serving()
        yield Trio(cluster, request.config.getoption("--variant"))


def test_row_29_only_terminating_endpoints_fail_the_check_while_traffic_flows(trio):
    trio.serve("Local")
    trio.checks(200, 503, 503)
    trio.serve("Local", ready=False, terminating=True)
    trio.checks(503, 503, 503)
    assert trio.fate("ext1", "node1", 30180) == "web1"
    assert trio.fate("ext1", LB_IP, 80) == "web1"


def test_row_37_the_policy_opens_and_closes_the_port(trio):
    for _ in range(2):
        trio.serve("Local")
        trio.checks(200, 503, 503)
        assert trio.fate("ext1", "node1", 30180) == "web1"
        assert trio.fate("client2", "node2", 30180) == "web1", "a pod's own node takes the short way"
        assert trio.fate("ext1", "node3", 30180) == "timeout"
        trio.serve("Cluster")
        trio.checks(None, None, None)
        assert trio.fate("ext1", "node3", 30180) == "web1"


def test_row_49_the_check_tells_which_nodes_serve_the_load_balancer(trio):
    trio.serve("Local")
    trio.checks(200, 503, 503)
    assert trio.fate("ext1", LB_IP, 80) == "web1"
    assert trio.fate("ext3", LB_IP, 80) == "timeout"
    assert trio.fate("client1", LB_IP, 80) == "web1"
    assert trio.fate("client2", LB_IP, 80) == "web1", "from a pod it works on every node"
