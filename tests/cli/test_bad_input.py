"""Manifests that are wrong, hostile or extreme: a clear error or a documented skip, everything else still served, never a crash,
and never a rule that iptables-restore refuses."""

import json
import os
import pathlib
import resource

import pytest
import sandbox as boxes
from conftest import crashed
from manifest_daemon import GOOD, GOOD_IP, Daemon, as_yaml, endpoint_slice, service


def node(**more):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"},
            "status": {"addresses": [{"type": "InternalIP", "address": "172.31.0.11"}]}, **more}


def changed(value, path, new):
    """A copy of an object with another value at "spec/ports/0/port"."""
    copy = json.loads(json.dumps(value))
    at = copy
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    for part in way:
        at = at.setdefault(part, {}) if isinstance(at, dict) else at[part]
    at[last] = new
    return copy


def with_spec(path, new, **spec):
    return [changed(service(**spec), f"spec/{path}", new), endpoint_slice()]


def render(box, text, *args, name="bad.yaml", **options):
    path = pathlib.Path(box.folder) / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = box.proxy("render", "-f", path, "--hostname-override=node1", "--cluster-cidr=10.244.0.0/16,fd00:244::/56", *args, **options)
    assert not crashed(done), done.stderr
    return done


def split_families(rendered):
    ipv4, ipv6 = rendered.split("# IPv6")
    return {"iptables-restore": ipv4, "ip6tables-restore": "#" + ipv6}


def kernel_accepts(box, rendered):
    """Each rule is one that iptables-restore takes."""
    for program, rules in split_families(rendered).items():
        done = box.run(program, "--test", input=rules)
        assert done.returncode == 0, f"{program}: {done.stderr}\n{rules}"


@pytest.fixture(scope="module", autouse=True)
def counters(box):
    """The match for packet counters is refused while there is no such counter."""
    empty = box.file("empty.yaml", "")
    assert box.proxy("apply", "-f", empty).returncode == 0


# ---- one object is wrong, the others are served

HALF = as_yaml([service()])[:-30]
LINE = 2  # of the bad object in the cases below

REFUSED = {
    "a port of zero": (with_spec("ports/0/port", 0), "Service web: spec.ports[0].port: must be between 1 and 65535, got 0"),
    "a negative port": (with_spec("ports/0/port", -80), "Service web: spec.ports[0].port: must be between 1 and 65535, got -80"),
    "a port out of range": (with_spec("ports/0/port", 65536), "Service web: spec.ports[0].port: must be between 1 and 65535, got 65536"),
    "a huge port": (with_spec("ports/0/port", 10**30), "Service web: spec.ports[0].port: expected a whole number, got number"),
    "a fractional port": (with_spec("ports/0/port", 80.5), "Service web: spec.ports[0].port: expected a whole number, got number"),
    "a port as text": (with_spec("ports/0/port", "80"), "Service web: spec.ports[0].port: expected a whole number, got string"),
    "no port number": (with_spec("ports/0", {"name": "http"}), "Service web: spec.ports[0].port: is missing"),
    "a node port out of range": (with_spec("ports/0/nodePort", 70000, type="NodePort"),
                                 "Service web: spec.ports[0].nodePort: must be between 0 and 65535, got 70000"),
    "a health-check port out of range": (with_spec("healthCheckNodePort", -1, type="LoadBalancer"),
                                         "Service web: spec.healthCheckNodePort: must be between 0 and 65535, got -1"),
    "an unknown protocol": (with_spec("ports/0/protocol", "tcp"), 'Service web: spec.ports[0].protocol: must be TCP, UDP or SCTP, got "tcp"'),
    "two ports of one name": (with_spec("ports", [{"name": "a", "port": 1}, {"name": "a", "port": 2}]),
                              'Service web: spec.ports[1]: a second TCP port named "a"'),
    "ports as an object": (with_spec("ports", {"port": 80}), "Service web: spec.ports: expected an array, got object"),
    "spec as text": ([changed(service(), "spec", "x"), endpoint_slice()], "Service web: spec: expected an object, got string"),
    "metadata as a list": ([changed(service(), "metadata", [])], "Service: metadata: expected an object, got array"),
    "labels as text": ([changed(service(), "metadata/labels", "x")], "Service web: metadata.labels: expected an object, got string"),
    "an address that is none": (with_spec("clusterIP", "10.96.0.256"), 'Service web: spec.clusterIP: must be an IP address, got "10.96.0.256"'),
    "an address with a tail": (with_spec("clusterIP", "fd00::1\0x"), r'Service web: spec.clusterIP: must be an IP address, got "fd00::1\x00x"'),
    "an address as a number": (with_spec("clusterIP", 10), "Service web: spec.clusterIP: expected a string, got number"),
    "two cluster IPs of one family": (with_spec("clusterIPs", ["10.96.0.10", "10.96.0.11"]),
                                      "Service web: spec.clusterIPs[1]: a second IPv4 address"),
    "three cluster IPs": (with_spec("clusterIPs", ["10.96.0.10", "fd00::1", "fd00::2"]), "Service web: spec.clusterIPs: must have at most 2 addresses"),
    "an unknown type": (with_spec("type", "Magic"), "Service web: spec.type: must be one of ClusterIP, NodePort, LoadBalancer, ExternalName"),
    "an unknown policy": (with_spec("externalTrafficPolicy", "local"), "Service web: spec.externalTrafficPolicy: must be one of Cluster, Local"),
    "an affinity time-out of zero": (with_spec("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 0}}, sessionAffinity="ClientIP"),
                                     "Service web: spec.sessionAffinityConfig.clientIP.timeoutSeconds: must be between 1 and 86400, got 0"),
    "a name with a quote": ([changed(service(), "metadata/name", 'a" -j ACCEPT "')], "metadata.name: must be a DNS label"),
    "a name with a line break": ([changed(service(), "metadata/name", "a\n-A INPUT -j DROP")], "metadata.name: must be a DNS label"),
    "a name with a space": ([changed(service(), "metadata/name", "a b")], "metadata.name: must be a DNS label"),
    "a name with a slash": ([changed(service(), "metadata/name", "../../x")], "metadata.name: must be a DNS label"),
    "a name in capitals": ([changed(service(), "metadata/name", "Web")], "metadata.name: must be a DNS label"),
    "a name of 64 characters": ([service("a" * 64)], "metadata.name: must be a DNS label"),
    "an empty name": ([service("")], "metadata.name: must be a DNS label"),
    "no name": ([changed(service(), "metadata", {})], "metadata.name: is missing"),
    "a namespace with a quote": ([changed(service(), "metadata/namespace", '"\n')], "metadata.namespace: must be a DNS label"),
    "a port name with a line break": (with_spec("ports/0/name", "http\nCOMMIT"), "Service web: spec.ports[0].name: must be a DNS label"),
    "an endpoint that is no address": ([service(), endpoint_slice(addresses=["10.244.1.2 -j ACCEPT"])],
                                       "EndpointSlice web-1: endpoints[0].addresses[0]: must be an IP address"),
    "an endpoint of the other family": ([service(), endpoint_slice(addresses=["fd00::1"])],
                                        "EndpointSlice web-1: endpoints[0].addresses[0]: must be an IPv4 address, got fd00::1"),
    "an unknown address type": ([service(), endpoint_slice(kind="IPv5")], "EndpointSlice web-1: addressType: must be one of IPv4, IPv6, FQDN"),
    "no address type": ([service(), changed(endpoint_slice(), "addressType", None)], "EndpointSlice web-1: addressType: is missing"),
    "1,001 endpoints": ([service(), endpoint_slice(addresses=["10.244.1.2"] * 1001)],
                        "EndpointSlice web-1: endpoints: must have at most 1000 items, got 1001"),
    "an endpoint port out of range": ([service(), endpoint_slice(ports=[{"name": "http", "port": 65536}])],
                                      "EndpointSlice web-1: ports[0].port: must be between 0 and 65535, got 65536"),
    "a condition that is no truth": ([service(), changed(endpoint_slice(), "endpoints/0/conditions", {"ready": "yes"})],
                                     "EndpointSlice web-1: endpoints[0].conditions.ready: expected a bool, got string"),
    "a node name with a line break": ([service(), changed(endpoint_slice(), "endpoints/0/nodeName", "a\nb")],
                                      "EndpointSlice web-1: endpoints[0].nodeName: must be a DNS name"),
    "a pod CIDR that is none": ([node(spec={"podCIDRs": ["10.244.0.0/33"]})], "Node node1: spec.podCIDRs[0]: must be a CIDR block"),
    "a list as the document": ([[]], "expected an object, got array"),
    "a text as the document": (["hello"], "expected an object, got string"),
    "no kind": ([{"apiVersion": "v1"}], "kind: is missing"),
    "a kind that is a number": ([{"apiVersion": "v1", "kind": 7}], "kind: expected a string, got number"),
    "a list with something else in it": ([{"apiVersion": "v1", "kind": "List", "items": [7]}], "items[0]: expected an object, got number"),
    "items that are no list": ([{"apiVersion": "v1", "kind": "List", "items": 7}], "items: expected an array, got number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_object_is_told_and_all_others_are_served(box, case):
    objects, error = REFUSED[case]
    done = render(box, as_yaml([*objects, *GOOD]))
    assert done.returncode == 1
    assert error in done.stderr
    first_line = done.stderr.splitlines()[0]
    assert first_line.startswith(f"kube-proxy: {box.folder}/bad.yaml:{LINE * (len(objects) if 'EndpointSlice' in error else 1)}: "), first_line
    assert f"-d {GOOD_IP}/32" in done.stdout
    kernel_accepts(box, done.stdout)


# ---- accepted, perhaps with a warning: documented in docs/parity.md

LONG = "a" * 63
LB = {"status": {"loadBalancer": {"ingress": [{"ip": "192.168.99.1"}, {"ip": "not-an-ip"}, {"hostname": "x"}]}}}
ACCEPTED = {
    "a cluster IP of the wrong family": (with_spec("ipFamilies", ["IPv6"]), "ipFamilies says IPv6 but the address is IPv4, ignoring it", []),
    "an external IP that is none": (with_spec("externalIPs", ["x\n-A INPUT -j DROP", "192.168.99.3"]), 'Skipping invalid IP "x\\n-A INPUT', ["192.168.99.3/32"]),
    "a load-balancer IP that is none": ([service(type="LoadBalancer") | LB, endpoint_slice()], 'Skipping invalid IP "not-an-ip"', ["-d 192.168.99.1/32"]),
    "a source range that is none": ([service(type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0/8\n", "evil -j ACCEPT"]) | LB, endpoint_slice()],
                                    'Invalid CIDR ignored "evil -j ACCEPT"', ["-s 10.0.0.0/8"]),
    "a slice without a Service name": ([service(), changed(endpoint_slice(), "metadata/labels", {})], "no kubernetes.io/service-name label set", ["has no endpoints"]),
    "an address type FQDN": ([service(), endpoint_slice(kind="FQDN")], "EndpointSlice address type not supported: FQDN", ["has no endpoints"]),
    "an endpoint without an address": ([service(), changed(endpoint_slice(), "endpoints/0/addresses", [])], "empty address", ["has no endpoints"]),
    "an endpoint port of zero": ([service(), endpoint_slice(ports=[{"name": "http", "port": 0}])], "Ignoring invalid endpoint port", ["has no endpoints"]),
    "other kinds": ([{"apiVersion": "apps/v1", "kind": "Deployment"}, {"apiVersion": "apps/v1", "kind": "Deployment"}, *with_spec("type", "ClusterIP")],
                    "skipping what a service proxy does not use: apps/v1 Deployment", ["-d 10.96.0.10/32"]),
    "a kind with a line break": ([{"apiVersion": "v1", "kind": "A\nB"}, service()], r'"v1 A\nB"', ["-d 10.96.0.10/32"]),
    "a Service twice": ([service(), service(ip="10.96.0.11")], "is defined again in", ["-d 10.96.0.11/32"]),
    "names of 63 characters": ([changed(service(LONG, ports=[{"name": LONG, "port": 80, "nodePort": 30080}], type="LoadBalancer", externalTrafficPolicy="Local",
                                                loadBalancerSourceRanges=["10.0.0.0/8"], sessionAffinity="ClientIP", healthCheckNodePort=30999),
                                        "metadata/namespace", LONG) | LB,
                                changed(endpoint_slice(LONG, ports=[{"name": LONG, "port": 8080}]), "metadata/namespace", LONG)],
                               'Skipping invalid IP "not-an-ip"', [f'"{LONG}/{LONG}:{LONG} -> 10.244.1.2:8080"']),
    "a slice name of 253 characters": ([service(), changed(endpoint_slice(), "metadata/name", "a" * 253)], "", ["10.244.1.2:8080"]),
    "1,000 endpoints in a slice": ([service(), endpoint_slice(addresses=[f"10.244.{i // 250}.{i % 250}" for i in range(1000)])], "", ["10.244.3.249:8080"]),
    "the same endpoint 1,000 times": ([service(), endpoint_slice(addresses=["10.244.1.2"] * 1000)], "", ["10.244.1.2:8080"]),
    "an address that is also the node's": ([node(), service(ip="172.31.0.11", externalIPs=["172.31.0.11"]), endpoint_slice(addresses=["172.31.0.11"])], "",
                                           ["-d 172.31.0.11/32", "--to-destination 172.31.0.11:8080"]),
    "a Service on loopback": ([service(ip="127.0.0.1"), endpoint_slice(addresses=["127.0.0.1"])], "", ["-d 127.0.0.1/32"]),
    "a Service on 0.0.0.0": ([service(ip="0.0.0.0"), endpoint_slice(addresses=["0.0.0.0"])], "", []),
    "a Service on all ones": ([service(ip="255.255.255.255"), endpoint_slice()], "", ["-d 255.255.255.255/32"]),
    "octets with leading zeros": ([service(ip="010.096.000.010"), endpoint_slice(addresses=["010.244.001.002"])], "",
                                  ["-d 10.96.0.10/32", "--to-destination 10.244.1.2:8080"]),
    "an IPv6 address in another spelling": ([service(ip="FD00:0:0::0010"), endpoint_slice(addresses=["FD00:244:0:0::0002"], kind="IPv6")], "",
                                            ["-d fd00::10/128", "--to-destination [fd00:244::2]:8080"]),
    "an IPv4 address in IPv6 form": ([service(ip="::ffff:10.96.0.10"), endpoint_slice()], "", ["-d 10.96.0.10/32"]),
    "an IPv6 address with an IPv4 tail": ([service(ip="fd00::10.1.2.3"), endpoint_slice(addresses=["::1.2.3.4"], kind="IPv6")], "", ["-d fd00::a01:203/128"]),
    "a Service without ports": ([service(ports=[]), endpoint_slice()], "", []),
    "a Service without a spec": ([{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}], "Service default/web: spec.clusterIP is empty: not proxied", []),
    "1,000 ports": ([service(ports=[{"name": f"p{i}", "port": i + 1, "protocol": "SCTP"} for i in range(1000)])], "", ["--dport 1000"]),
    "unknown fields": (with_spec("noSuchField", {"a": [1, None]}), "", ["-d 10.96.0.10/32"]),
    "an empty list": ([{"apiVersion": "v1", "kind": "List", "items": []}], "", []),
    "items in lists in lists": ([{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ServiceList", "items": [
        {"metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 80}]}}]}]}], "", ["-d 10.96.0.10/32"]),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_is_accepted_gives_rules_that_the_kernel_accepts(box, case):
    objects, warning, expected = ACCEPTED[case]
    done = render(box, as_yaml([*objects, *GOOD]))
    assert done.returncode == 0, done.stderr
    assert warning in done.stderr
    assert warning or done.stderr == ""
    for part in [*expected, f"-d {GOOD_IP}/32"]:
        assert part in done.stdout
    kernel_accepts(box, done.stdout)


def test_a_service_with_a_cluster_ip_is_served_whatever_its_labels(box):
    done = render(box, as_yaml([changed(service(), "metadata/labels", {"service.kubernetes.io/headless": ""}), endpoint_slice()]))
    assert "-d 10.96.0.10/32" in done.stdout


def test_a_service_without_a_cluster_ip_is_told(box):
    """A misspelt clusterIP (clusterIp) looks the same."""
    done = render(box, as_yaml([changed(service(), "spec/clusterIP", None), endpoint_slice()]))
    assert "web" in done.stderr


# ---- text that is no manifest

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
TEXTS = {
    "half of a document": (HALF, "found unexpected end of stream"),
    "an open bracket": ("kind: Service\nspec: {ports: [\n", ":3: "),
    "a tab for an indent": ("kind: Service\nspec:\n\tports: []\n", ":3: found character that cannot start any token"),
    "an open quote": ('kind: "Service\n', "found unexpected end of stream"),
    "binary garbage": (bytes(range(256)) * 64, ":1: "),
    "bytes that are not UTF-8": (b"kind: Service\nmetadata: {name: \xff\xfe}\n", ":2: "),
    "UTF-16 cut short": ("kind: Service".encode("utf-16") + b"\x00", ": "),
    "a single NUL": (b"\0", ": "),
    "ELF": (pathlib.Path("/bin/true").read_bytes()[:4096], ": "),
    "an alias that contains itself": ("kind: Service\nspec: &a {x: *a}\n", 'anchor "a" contains itself'),
    "an unknown alias": ("kind: *nothing\n", 'unknown anchor "nothing" referenced'),
    "an alias bomb": (BOMB, "the document is too large, aliases included"),
    "brackets 100,000 deep": ("[" * 100_000, "nested too deep"),
    "braces 100,000 deep": ('{"a":' * 100_000, "nested too deep"),
    "dashes 10,000 deep": ("- " * 10_000 + "x\n", "nested too deep"),
    "a key that is a list": ("{[a]: b}\n", "a key must be a scalar"),
    "a merge of a text": ("<<: x\nkind: Service\n", "a merge key needs a map"),
    "a wrong tag": ("kind: !!int Service\n", "cannot decode"),
    "JSON cut short": ('{"kind": "Service", "metadata": {"name": ', ": "),
    "JSON with a raw line break in a string": ('{"kind": "Ser\nvice"}', ": "),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_text_that_is_no_manifest_is_told(box, case):
    text, error = TEXTS[case]
    folder = pathlib.Path(box.folder) / "folder"
    folder.mkdir(exist_ok=True)
    (folder / "bad.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "good.yaml").write_text(as_yaml(GOOD))
    done = box.proxy("render", "-f", folder, timeout=20)
    assert done.returncode == 1, "a broken file is trouble"
    assert f"kube-proxy: {folder}/bad.yaml" in done.stderr
    assert error in done.stderr
    assert len(done.stderr) < 2000, "a message, not the file"
    assert f"-d {GOOD_IP}/32" in done.stdout, "the other file is served"
    kernel_accepts(box, done.stdout)


BLOCK = """apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  clusterIP: 10.96.0.10
  ports:
  - port: 80
"""


@pytest.mark.parametrize("text", [
    BLOCK.replace("\n", "\r\n"), "\ufeff" + BLOCK, ("\ufeff" + BLOCK).encode("utf-16-le"), BLOCK + "---\n---\n...\n", "# a comment\n" + BLOCK,
    BLOCK.replace("80", "0x50"), BLOCK.replace("port: 80", "port: 80\n    ? name\n    : http"), "%YAML 1.1\n---\n" + BLOCK,
    "\ufeff" + json.dumps(service(ports=[{"port": 80}])), BLOCK + "x: .nan\ny: .inf\nz: 99999999999999999999999999\n",
], ids=["CRLF", "BOM", "UTF-16", "empty documents", "comment", "hexadecimal", "explicit key", "directive", "JSON with a BOM", "NaN and huge numbers"])
def test_other_spellings_of_the_same_are_read(box, text):
    done = render(box, text)
    assert (done.returncode, done.stderr) == (0, "")
    assert "-d 10.96.0.10/32" in done.stdout
    assert "--dport 80 " in done.stdout


@pytest.mark.parametrize(("value", "got"), [(".nan", "number"), (".inf", "number"), ("1e400", "string"), ("true", "bool"), ("[80]", "array"), ("'80'", "string")])
def test_a_port_that_is_no_number_is_told(box, value, got):
    done = render(box, BLOCK.replace("port: 80", f"port: {value}"))
    assert done.returncode == 1
    assert f"bad.yaml:8: Service web: spec.ports[0].port: expected a whole number, got {got}" in done.stderr


@pytest.mark.parametrize("text", [
    BLOCK + "  clusterIP: 10.96.0.11\n", BLOCK + "kind: Service\n", '{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{},"spec":{}}'])
def test_a_key_that_is_there_twice_is_told(box, text):
    done = render(box, text)
    assert done.returncode == 1
    assert "already set in map" in done.stderr
    assert "10.96.0.1" not in done.stdout


def test_a_list_with_two_lists_of_items_is_told(box):
    one, two = json.dumps(service()), json.dumps(service("two", "10.96.0.11"))
    done = render(box, f'{{"apiVersion": "v1", "kind": "List", "items": [{one}], "items": [{two}]}}')
    assert "already set in map" in done.stderr


def test_a_slice_with_ports_of_one_name_is_told(box):
    """The API server refuses it. 20,000 of them, with 1,000 endpoints, would be 20 million endpoints."""
    ports = [{"name": "http", "port": i + 1} for i in range(50)]
    done = render(box, as_yaml([service(), endpoint_slice(ports=ports)]))
    assert done.returncode == 1


# ---- size

def limited(megabytes):
    if os.environ.get("KP_SANITIZE"):
        return None  # a sanitizer reserves terabytes of addresses; the limit is tested without one
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


@pytest.mark.parametrize(("piece", "error"), [
    ("# nothing but comments, line after line after line\n", None),
    ("- x\n", "the document is too large"),
    ('"', ""),
], ids=["comments", "a list", "quotes"])
def test_a_file_of_100_mb(box, piece, error):
    folder = pathlib.Path(box.folder) / "large"
    folder.mkdir(exist_ok=True)
    (folder / "bad.yaml").write_text(piece * (100_000_000 // len(piece)))
    (folder / "good.yaml").write_text(as_yaml(GOOD))
    try:
        done = box.proxy("render", "-f", folder, timeout=60, preexec_fn=limited(2048))
    finally:
        (folder / "bad.yaml").unlink()
    assert not crashed(done), done.stderr
    assert done.returncode == (0 if error is None else 1)
    assert (error or "") in done.stderr
    assert f"-d {GOOD_IP}/32" in done.stdout


def test_a_file_beyond_the_limit_is_not_even_read(box):
    path = pathlib.Path(box.folder) / "sparse.yaml"
    with open(path, "wb") as file:
        file.truncate(300 << 20)
    done = box.proxy("render", "-f", path)
    path.unlink()
    assert done.returncode == 1
    assert "sparse.yaml: is larger than 256 MiB" in done.stderr


def test_a_hundred_thousand_mistakes_are_a_hundred_messages(box):
    done = render(box, as_yaml([[]] * 100_000 + GOOD), timeout=20)
    assert done.returncode == 1
    assert 100 <= len(done.stderr.splitlines()) <= 102
    assert "more problems from here on, not listed" in done.stderr
    assert f"-d {GOOD_IP}/32" in done.stdout


# ---- paths

@pytest.mark.parametrize(("path", "error"), [
    ("/missing/web.yaml", "/missing/web.yaml: no such file or directory"), ("/dev/zero", "/dev/zero: is not a regular file"),
    ("/dev/null/x", "/dev/null/x: not a directory"), ("x" * 300, "file name too long")])
def test_a_path_that_is_no_manifest_is_told(box, path, error):
    done = box.proxy("render", "-f", path, timeout=10)
    assert not crashed(done)
    assert done.returncode == 1
    assert error in done.stderr


def test_an_empty_folder_is_no_mistake(box):
    folder = pathlib.Path(box.folder) / "nothing"
    folder.mkdir()
    (folder / "sub.yaml").mkdir()
    (folder / ".hidden.yaml").write_text("kind: [\n")
    (folder / "notes.txt").write_text("kind: [\n")
    done = box.proxy("render", "-f", folder)
    assert (done.returncode, done.stderr) == (0, "")
    kernel_accepts(box, done.stdout)


def test_strange_files_in_a_folder_are_told_and_the_others_served(box):
    folder = pathlib.Path(box.folder) / "strange"
    folder.mkdir()
    (folder / "dangling.yaml").symlink_to("/missing")
    (folder / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "device.yaml").symlink_to("/dev/zero")
    (folder / "good.yaml").write_text(as_yaml(GOOD))
    done = box.proxy("render", "-f", folder, timeout=10)
    assert done.returncode == 1
    for name, error in [("dangling", "no such file or directory"), ("loop", "too many levels of symbolic links"), ("pipe", "is not a regular file"),
                        ("device", "is not a regular file")]:
        assert f"{folder}/{name}.yaml: " in done.stderr
        assert error in done.stderr
    assert f"-d {GOOD_IP}/32" in done.stdout


def test_a_file_that_may_not_be_read_is_told(box):
    folder = pathlib.Path(box.folder) / "secret"
    folder.mkdir()
    (folder / "secret.yaml").write_text(as_yaml([service()]))
    (folder / "secret.yaml").chmod(0)
    (folder / "good.yaml").write_text(as_yaml(GOOD))
    os.chmod(box.folder, 0o755)
    done = box.run("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", boxes.BINARY, "render", "-f", folder)
    assert done.returncode == 1
    assert "secret.yaml: cannot be read: permission denied" in done.stderr
    assert f"-d {GOOD_IP}/32" in done.stdout


# ---- the daemon goes on

@pytest.fixture(scope="module")
def daemon():
    with boxes.sandbox() as own:
        made = Daemon(own)
        yield made
        made.kill()


def test_a_daemon_survives_every_broken_file_and_serves_what_is_saved_next(daemon):
    daemon.save("good.yaml", as_yaml(GOOD))
    daemon.save("bad.yaml", as_yaml([service(), endpoint_slice()]))
    daemon.wait_for_rule("-d 10.96.0.10/32")
    broken = [text for text, _ in TEXTS.values()] + [as_yaml(objects) for objects, _ in REFUSED.values()]
    for count, text in enumerate(broken, 1):
        daemon.save("bad.yaml", text)
        daemon.wait_for_log("bad.yaml: keeps its last good state until it is mended", count)
        assert daemon.process.poll() is None, daemon.log()
    rules = daemon.box.save()
    assert f"-d {GOOD_IP}/32" in rules
    assert "-d 10.96.0.10/32" in rules, "the last good state stays in force"
    daemon.save("bad.yaml", as_yaml([service(ip="10.96.0.77"), endpoint_slice()]))
    daemon.wait_for_rule("-d 10.96.0.77/32")
    daemon.wait_for_log("bad.yaml: good again")


def test_a_daemon_takes_every_extreme_file_into_the_kernel(daemon):
    for number, (objects, _, _) in enumerate(ACCEPTED.values()):
        marker = f"10.97.0.{number + 1}"
        daemon.save("extreme.yaml", as_yaml([*objects, service("marker", marker)]))
        daemon.wait_for_rule(f"-d {marker}/32")
    assert "Sync failed" not in daemon.log()


def test_a_half_written_file_waits_until_it_is_closed(daemon):
    text = as_yaml([service("slow", "10.96.0.55"), endpoint_slice("slow")])
    with open(daemon.folder / "slow.yaml", "w", encoding="utf8") as file:
        file.write(text[:60])
        file.flush()
        daemon.save("other.yaml", as_yaml([service("other", "10.96.0.56")]))
        daemon.wait_for_rule("-d 10.96.0.56/32")
        assert "slow.yaml" not in daemon.log()
        file.write(text[60:])
    daemon.wait_for_rule("-d 10.96.0.55/32")
