"""The daemon and an API server: a good one, and one that speaks nonsense.

The real API server is in tests/conformance; the one here needs nothing but Python, and does what a real one never would.
"""

import json
import pathlib
import re
import signal
import subprocess
import time

import fake_api
import pytest
import sandbox as boxes
import yaml
from lab.client import page
from test_daemon import CONFIG, wait_until

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"},
        "status": {"addresses": [{"type": "InternalIP", "address": "172.31.0.11"}, {"type": "InternalIP", "address": "fd00:31::11"}]}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
           "spec": {"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"], "ports": [{"port": 80, "protocol": "TCP"}]}}
SLICE = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
         "metadata": {"name": "web-a", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
         "endpoints": [{"addresses": ["10.244.1.5"]}], "ports": [{"port": 8080, "protocol": "TCP"}]}
LEAVE_CONNTRACK = "conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n"
MAX_MEMORY_KB = 120_000
METRICS_PORT = 10249


class Proxy:
    def __init__(self, box, api, config=CONFIG):
        self.box, self.api = box, api
        self.log_path = pathlib.Path(box.folder) / "log"
        kubeconfig = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "k", "cluster": {"server": api.url}}],
                      "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}
        path = box.file("kubeconfig", json.dumps(kubeconfig))
        self.config_path = box.file("config.yaml", config + f"clientConnection: {{kubeconfig: {path}}}\n")
        self.process = subprocess.Popen(["ip", "netns", "exec", box.ns.name, boxes.BINARY, f"--config={self.config_path}", "-v=2"],
                                        env=box.environment(), stderr=open(self.log_path, "a"), stdin=subprocess.DEVNULL)

    def log(self):
        return self.log_path.read_text()

    def wait_for_log(self, pattern, seconds=20):
        self._wait(lambda: re.search(pattern, self.log()), f"the log says {pattern}", seconds)

    def wait_for_rule(self, text):
        self._wait(lambda: text in self.box.save(), f"a rule with {text}")

    def _wait(self, condition, what, seconds=20):
        try:
            wait_until(condition, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()[-3000:]}") from None

    def peak_memory_kb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1])

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)


@pytest.fixture
def api(box):
    made = fake_api.FakeApi(box.ns, [NODE, SERVICE, SLICE])
    yield made
    made.close()


@pytest.fixture
def proxy(box, api):
    made = []

    def start(**options):
        made.append(Proxy(box, api, **options))
        return made[-1]

    yield start
    for one in made:
        one.stop()


def test_the_state_and_every_change_get_into_the_kernel(api, proxy):
    running = proxy()
    running.wait_for_rule("--to-destination 10.244.1.5:8080")
    moved = {**SLICE, "metadata": {**SLICE["metadata"], "resourceVersion": "8"}, "endpoints": [{"addresses": ["10.244.1.6"]}]}
    api.send("endpointslices", fake_api.event("MODIFIED", moved))
    running.wait_for_rule("--to-destination 10.244.1.6:8080")
    api.send("services", fake_api.event("DELETED", {**SERVICE, "metadata": {**SERVICE["metadata"], "resourceVersion": "9"}}))
    wait_until(lambda: "10.96.0.9" not in running.box.save(), "the Service is gone")


def test_a_recording_comes_out_the_same_as_from_manifests(box, api, proxy):
    api.objects = [one for one in yaml.safe_load_all(boxes.objects_of("dual-stack").read_text()) if one]
    running = proxy(config=boxes.config_of("dual-stack") + LEAVE_CONNTRACK)
    running.wait_for_log(r'"Synced rules" ipFamily="IPv4"')
    running.wait_for_log(r'"Synced rules" ipFamily="IPv6"')
    for family, program in boxes.FAMILIES.items():
        recorded = boxes.ROOT / "tests" / "recordings" / "dual-stack" / f"{program}.txt"
        assert boxes.same_rules(recorded, box.save(family), box.folder) == "same"


def test_the_start_is_told_as_an_event(api, proxy):
    running = proxy()
    wait_until(lambda: any(method == "POST" for method, *_ in api.requests), f"an event; log:\n{running.log()[-3000:]}")
    posted = next(request for request in api.requests if request[0] == "POST")
    assert posted[1] == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert posted[3].startswith(b"k8s\0") and b"Starting" in posted[3] and b"StartKubeProxy" in posted[3]


# What a server may say in place of Services; and what the log then says.
def html(connection, _):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>Please log in</html>")


def bad_gateway(connection, _):
    connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 16\r\n\r\n<html>no</html>\n")


def not_http(connection, _):
    connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n" + bytes(range(256)))


def truncated_protobuf(connection, _):
    connection.sendall(fake_api.HEAD.replace(b"application/json", b"application/vnd.kubernetes.protobuf;stream=watch"))
    event = b"\x0a\x05ADDED\x12\x7f\x0a\x7dk8s\0"  # its object is said to be longer than all of it
    connection.sendall(fake_api.chunk(len(event).to_bytes(4, "big") + event))
    time.sleep(0.2)


def endless_headers(connection, _):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for _ in range(100_000):
        connection.sendall(b"X-Filler: " + b"x" * 1000 + b"\r\n")


def redirect(connection, _):
    connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")


def huge_chunk(connection, _):
    connection.sendall(fake_api.HEAD + b"7fffffff\r\n" + b'{"type":"ADDED","object":{"kind":"')
    for _ in range(2000):
        connection.sendall(b"x" * 65536)  # 130 MB in all


def bookmark_goes_back(connection, resource):
    connection.sendall(fake_api.HEAD + fake_api.chunk(fake_api.bookmark(resource, 500, True)) + fake_api.chunk(fake_api.bookmark(resource, 9)))
    time.sleep(0.2)


def without_a_name(connection, _):
    nameless = {**SERVICE, "metadata": {"namespace": "default", "resourceVersion": "5"}}
    connection.sendall(fake_api.HEAD + fake_api.chunk(fake_api.event("ADDED", nameless)))
    time.sleep(0.2)


def hangs_up(connection, _):
    pass


NONSENSE = {
    html: "text/html", bad_gateway: "502 Bad Gateway", not_http: "malformed HTTP response", truncated_protobuf: "broken protobuf",
    endless_headers: "header", redirect: "302", huge_chunk: "more than 16777216 bytes", bookmark_goes_back: "went back from version 500 to 9",
    without_a_name: "without a name", hangs_up: "Lost the connection to the API server.*EOF",
}


@pytest.mark.parametrize("nonsense", NONSENSE, ids=lambda one: one.__name__)
def test_nonsense_in_place_of_a_watch_is_told_and_tried_again(api, proxy, nonsense):
    api.misbehave = nonsense
    running = proxy()
    running.wait_for_log(NONSENSE[nonsense])
    api.misbehave = None
    running.wait_for_rule("--to-destination 10.244.1.5:8080")
    assert running.process.poll() is None
    assert running.peak_memory_kb() < MAX_MEMORY_KB


@pytest.mark.parametrize("nonsense", [html, bad_gateway, not_http, endless_headers, redirect], ids=lambda one: one.__name__)
def test_nonsense_from_the_start_leaves_the_kernel_alone(api, proxy, nonsense):
    api.misbehave, api.lists_as_well = nonsense, True
    running = proxy()
    running.wait_for_log("Failed to watch.*failed to list .v1.Service.*" + NONSENSE[nonsense])
    assert "KUBE-SERVICES" not in running.box.save()
    api.misbehave = None
    running.wait_for_rule("--to-destination 10.244.1.5:8080")


def test_after_nonsense_in_the_middle_the_last_state_stays_in_force(api, proxy):
    running = proxy()
    running.wait_for_rule("--to-destination 10.244.1.5:8080")
    api.misbehave, api.lists_as_well = html, True
    api.send("services", b"\xff\xfegarbage")
    running.wait_for_log("Failed to watch")
    assert "--to-destination 10.244.1.5:8080" in running.box.save()
    api.misbehave = None
    api.objects = [NODE, SLICE]
    wait_until(lambda: "10.96.0.9" not in running.box.save(), "what went away meanwhile is gone")


def test_an_object_that_makes_no_sense_is_left_out(api, proxy):
    api.objects = [NODE, SERVICE, SLICE, {**SERVICE, "metadata": {"name": "bad\nname", "namespace": "default"}},
                   {**SERVICE, "metadata": {"name": "bad-ip", "namespace": "default"}, "spec": {**SERVICE["spec"], "clusterIP": "; rm -rf", "clusterIPs": []}}]
    running = proxy()
    running.wait_for_rule("--to-destination 10.244.1.5:8080")
    assert "default/bad-ip" in running.log() and "rm -rf" not in running.box.save()


# The Node.

def test_it_waits_for_its_node(api, proxy):
    api.objects = [SERVICE, SLICE]
    running = proxy()
    running.wait_for_log("Waiting up to 30 s for the Node")
    assert "KUBE-SERVICES" not in running.box.save()
    api.send("nodes", fake_api.event("ADDED", {**NODE, "metadata": {"name": "node1", "resourceVersion": "8"}}))
    running.wait_for_rule("--to-destination 10.244.1.5:8080")
    assert 'NodeIPs=["172.31.0.11","fd00:31::11"]' in running.log()


def test_new_pod_cidrs_end_it_in_mode_node_cidr(api, proxy):
    api.objects = [NODE, SERVICE, SLICE]
    running = proxy(config=CONFIG + "detectLocalMode: NodeCIDR\n")
    running.wait_for_log("podCIDRs")
    with_cidrs = {**NODE, "metadata": {"name": "node1", "resourceVersion": "8"}, "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]}}
    api.send("nodes", fake_api.event("MODIFIED", with_cidrs))
    running.wait_for_rule("! -s 10.244.1.0/24")
    other = {**with_cidrs, "metadata": {"name": "node1", "resourceVersion": "9"}, "spec": {"podCIDRs": ["10.244.2.0/24"]}}
    api.send("nodes", fake_api.event("MODIFIED", other))
    running.wait_for_log("PodCIDRs changed for the node")
    assert running.process.wait(10) == 1


def test_new_addresses_of_the_node_are_told(api, proxy):
    running = proxy()
    running.wait_for_rule("--to-destination 10.244.1.5:8080")
    moved = {**NODE, "metadata": {"name": "node1", "resourceVersion": "8"}, "status": {"addresses": [{"type": "InternalIP", "address": "172.31.0.99"}]}}
    api.send("nodes", fake_api.event("MODIFIED", moved))
    running.wait_for_log("NodeIPs changed for the node")
    assert running.process.poll() is None


# While the API is away.

def test_the_metrics_server_answers_before_the_api_server_does(box, api, proxy):
    api.close()
    running = proxy()
    running.wait_for_log("Cannot watch the API server.*connection refused")
    assert page(box.ns, METRICS_PORT, "/proxyMode") == "iptables"


def test_the_first_sync_shows_in_the_metrics(box, api, proxy):
    running = proxy()
    running.wait_for_rule("--to-destination 10.244.1.5:8080")
    for family in ("IPv4", "IPv6"):
        count = rf'kubeproxy_sync_proxy_rules_duration_seconds_count{{ip_family="{family}"}} [1-9]'
        wait_until(lambda count=count: re.search(count, page(box.ns, METRICS_PORT, "/metrics")), f"{family} in the metrics")


def test_a_configuration_that_is_written_ends_it_even_while_it_waits(api, proxy):
    api.close()
    running = proxy()
    running.wait_for_log("Cannot watch the API server")
    running.config_path.write_text(CONFIG)
    assert running.process.wait(10) == 1
    assert "content of the proxy server's configuration file was updated" in running.log()
