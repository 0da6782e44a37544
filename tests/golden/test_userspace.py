"""`kube-proxy render` in mode userspace: the rules are those that the mode always had, and both kinds of iptables take
them and give them back word for word."""

import ipaddress
import re

import pytest
import sandbox
import yaml

VARIANTS = ("nft", "legacy")
PORTALS = 'handle ClusterIPs; NOTE: this must be before the NodePort rules'
NODE_PORTS = 'handle service NodePorts; NOTE: this must be the last rule in the chain'
LINKS = {
    "INPUT": ['-m comment --comment "Ensure that non-local NodePort traffic can flow" -j KUBE-NODEPORT-NON-LOCAL'],
    "PREROUTING": [f'-m comment --comment "{PORTALS}" -j KUBE-PORTALS-CONTAINER',
                   f'-m addrtype --dst-type LOCAL -m comment --comment "{NODE_PORTS}" -j KUBE-NODEPORT-CONTAINER'],
    "OUTPUT": [f'-m comment --comment "{PORTALS}" -j KUBE-PORTALS-HOST',
               f'-m addrtype --dst-type LOCAL -m comment --comment "{NODE_PORTS}" -j KUBE-NODEPORT-HOST'],
}
CHAINS = ("KUBE-PORTALS-CONTAINER", "KUBE-PORTALS-HOST", "KUBE-NODEPORT-CONTAINER", "KUBE-NODEPORT-HOST", "KUBE-NODEPORT-NON-LOCAL")
NOT_FROM_A_BRIDGE = " -m physdev ! --physdev-is-in"
TO_THIS_NODE = " -m addrtype --dst-type LOCAL"

WEB = """
apiVersion: v1
kind: Node
metadata: {name: node1}
status: {addresses: [{type: InternalIP, address: 192.168.0.2}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  externalIPs: [192.168.99.11]
  ports: [{name: http, port: 80, protocol: TCP, nodePort: 30080}]
status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}
"""

# The example of v1.25's rules: bindAddress 0.0.0.0, proxy port 40000.
WEB_RULES = """\
*filter
-A INPUT -m comment --comment "Ensure that non-local NodePort traffic can flow" -j KUBE-NODEPORT-NON-LOCAL
-A KUBE-NODEPORT-NON-LOCAL -p tcp -m comment --comment "default/web:http" -m tcp --dport 40000 -m state --state NEW -j ACCEPT
*nat
-A PREROUTING -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-CONTAINER
-A PREROUTING -m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-CONTAINER
-A OUTPUT -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-HOST
-A OUTPUT -m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-HOST
-A KUBE-PORTALS-CONTAINER -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j REDIRECT --to-ports 40000
-A KUBE-PORTALS-CONTAINER -d 192.168.99.11/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -m physdev ! --physdev-is-in -j REDIRECT --to-ports 40000
-A KUBE-PORTALS-CONTAINER -d 192.168.99.11/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -m addrtype --dst-type LOCAL -j REDIRECT --to-ports 40000
-A KUBE-PORTALS-CONTAINER -d 1.2.3.4/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j REDIRECT --to-ports 40000
-A KUBE-PORTALS-HOST -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j DNAT --to-destination 192.168.0.2:40000
-A KUBE-PORTALS-HOST -d 192.168.99.11/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -m addrtype --dst-type LOCAL -j DNAT --to-destination 192.168.0.2:40000
-A KUBE-PORTALS-HOST -d 1.2.3.4/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80 -j DNAT --to-destination 192.168.0.2:40000
-A KUBE-NODEPORT-CONTAINER -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j REDIRECT --to-ports 40000
-A KUBE-NODEPORT-HOST -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j DNAT --to-destination 192.168.0.2:40000
"""  # noqa: E501


@pytest.fixture(scope="module")
def boxes():
    for variant in VARIANTS:
        sandbox.require(variant)
    with sandbox.sandbox("nft") as nft, sandbox.sandbox("legacy") as legacy:
        yield {"nft": nft, "legacy": legacy}


@pytest.fixture(scope="module")
def rendered(boxes):
    """(recording, family) -> text; each is rendered once."""
    known = {}

    def render(recording, family):
        if (recording, family) not in known:
            config = boxes["nft"].file("config.yaml", sandbox.config_of(recording))
            known[recording, family] = render_text(boxes["nft"], sandbox.objects_of(recording), family, "--config", config)
        return known[recording, family]

    return render


def render_text(box, objects, family, *flags):
    done = box.proxy("render", "-f", objects, "--proxy-mode", "userspace", "--family", family, *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tables(text):
    """Table -> its lines. iptables-save prints tables in any order."""
    found = {}
    for line in text.splitlines():
        if line.startswith("*"):
            lines = found.setdefault(line, [])
        elif not line.startswith("#"):
            lines.append(line.split(" [")[0] if line.startswith(":") else line)
    return found


def rules_of(lines):
    """Chain -> its rules, without their beginning. In which order chains are printed has no meaning."""
    found = {}
    for line in lines:
        if line.startswith("-A "):
            _, chain, rule = line.split(" ", 2)
            found.setdefault(chain, []).append(rule)
    return found


@pytest.mark.parametrize("recording", sandbox.RECORDINGS)
@pytest.mark.parametrize("family", sandbox.FAMILIES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_iptables_gives_back_what_is_rendered(boxes, rendered, recording, family, variant):
    box, text = boxes[variant], rendered(recording, family)
    done = box.run(f"{sandbox.FAMILIES[family]}-restore", input=text)
    assert done.returncode == 0, done.stderr
    assert tables(box.save(family)) == tables(text)


def test_the_example_of_the_mode_is_rendered_word_for_word(boxes):
    text = render_text(boxes["nft"], boxes["nft"].file("web.yaml", WEB), "ipv4", "--hostname-override=node1")
    for table, lines in tables(WEB_RULES).items():
        assert rules_of(tables(text)[table]) == rules_of(lines)


@pytest.mark.parametrize("family, listen, host", [("ipv4", "172.31.0.11", "172.31.0.11"), ("ipv6", "fd00:31::11", "[fd00:31::11]")])
def test_rules_lead_to_the_address_that_sockets_are_bound_to(boxes, family, listen, host):
    config = boxes["nft"].file("config.yaml", sandbox.config_of("dual-stack") + f'bindAddress: "{listen}"\n')
    rules = rules_of(render_text(boxes["nft"], sandbox.objects_of("dual-stack"), family, "--config", config).splitlines())
    targets = {re.sub(r"\d+$", "", rule.partition(" -j ")[2]) for chain in CHAINS[:4] for rule in rules[chain]}
    assert targets == {f"DNAT --to-destination {host}:"}


# What the rules of a recording must be, said once more

def is_proxied(service):
    labels = service["metadata"].get("labels", {})
    return (not labels.keys() & {"service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"}
            and service["spec"].get("clusterIP", "None") not in ("None", "") and service["spec"]["type"] != "ExternalName")


def addresses_of(service):
    """Pairs of a kind and an address, in the order of the rules."""
    spec, ingress = service["spec"], service.get("status", {}).get("loadBalancer", {}).get("ingress", [])
    return ([("cluster", ip) for ip in spec["clusterIPs"]] + [("external", ip) for ip in spec.get("externalIPs", [])]
            + [("cluster", one["ip"]) for one in ingress if "ip" in one and one.get("ipMode", "VIP") == "VIP"])


def expected_rules(objects, version):
    """Chain -> rules, with CONT and HOST for their targets and PP for proxy ports."""
    found = {}

    def add(chain, match, target):
        found.setdefault(chain, []).append(f"{match} -j {target}")

    services = [one for one in objects if one["kind"] == "Service" and is_proxied(one)]
    for service in sorted(services, key=lambda one: (one["metadata"]["namespace"], one["metadata"]["name"])):
        own = [(kind, ip) for kind, ip in addresses_of(service) if ipaddress.ip_address(ip).version == version]
        if not any(ip in service["spec"]["clusterIPs"] for _, ip in own):
            continue
        for port in service["spec"]["ports"]:
            if port["protocol"] == "SCTP":
                continue
            add_rules(add, service["metadata"], port, own)
    return found


def add_rules(add, metadata, port, addresses):
    protocol = port["protocol"].lower()
    name = f"{metadata['namespace']}/{metadata['name']}" + (f":{port['name']}" if port.get("name") else "")

    def match(number, ip=None):
        destination = f"-d {ip}/{ipaddress.ip_address(ip).max_prefixlen} " if ip else ""
        return f'{destination}-p {protocol} -m comment --comment "{name}" -m {protocol} --dport {number}'

    for kind, ip in addresses:
        here = match(port["port"], ip)
        if kind == "cluster":
            add("KUBE-PORTALS-CONTAINER", here, "CONT")
            add("KUBE-PORTALS-HOST", here, "HOST")
        else:
            add("KUBE-PORTALS-CONTAINER", here + NOT_FROM_A_BRIDGE, "CONT")
            add("KUBE-PORTALS-CONTAINER", here + TO_THIS_NODE, "CONT")
            add("KUBE-PORTALS-HOST", here + TO_THIS_NODE, "HOST")
    if port.get("nodePort"):
        add("KUBE-NODEPORT-CONTAINER", match(port["nodePort"]), "CONT")
        add("KUBE-NODEPORT-HOST", match(port["nodePort"]), "HOST")
        add("KUBE-NODEPORT-NON-LOCAL", match("PP") + " -m state --state NEW", "ACCEPT")


def masked(chain, rule):
    if chain == "KUBE-NODEPORT-NON-LOCAL":
        return re.sub(r"--dport \d+", "--dport PP", rule)
    return re.sub(r"REDIRECT --to-ports \d+$", "CONT", re.sub(r"DNAT --to-destination \S+:\d+$", "HOST", rule))


@pytest.mark.parametrize("recording", sandbox.RECORDINGS)
@pytest.mark.parametrize("family", sandbox.FAMILIES)
def test_every_address_has_the_rules_of_its_kind(rendered, recording, family):
    rules = rules_of(rendered(recording, family).splitlines())
    assert {chain: rules.pop(chain) for chain in LINKS} == LINKS
    with open(sandbox.objects_of(recording), encoding="utf-8") as file:
        objects = list(yaml.safe_load_all(file))
    found = {chain: [masked(chain, rule) for rule in own] for chain, own in rules.items()}
    assert found == expected_rules(objects, 4 if family == "ipv4" else 6)


@pytest.mark.parametrize("recording", sandbox.RECORDINGS)
@pytest.mark.parametrize("family", sandbox.FAMILIES)
def test_no_proxy_port_belongs_to_two_services(rendered, recording, family):
    owners = {}
    for chain, rules in rules_of(rendered(recording, family).splitlines()).items():
        for rule in rules if chain in CHAINS[:4] else ():
            owners.setdefault(rule.rpartition(":" if "DNAT" in rule else " ")[2], set()).add(re.search(r'--comment "(.*?)"', rule).group(1))
    assert all(len(names) == 1 for names in owners.values()), owners
