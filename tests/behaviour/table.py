"""The table: a packet from here to there ends up ...

It says nothing about how a mode does its work, and every mode runs all of it. The cluster is the default one of the
laboratory: client1, web1a and web1b are pods on node1 (zone-a); client2, web2a and web2b on node2 (zone-b); ext1 and
ext2 are outside and send what is meant for a Service to node1 and node2. All pods and outsiders serve TCP and UDP on
8080, 8081 and 8082, the nodes on 7080.

The number after a scenario's name is the case of the Kubernetes project's test/e2e/network that it re-creates; the
list of them is REQUIRED at the end.
"""

from rows import (
    CLOSED,
    DROPPED,
    REFUSED,
    Port,
    Slice,
    answered,
    differing,
    in_ipvs,
    in_nftables,
    in_userspace,
    pod,
    row,
    scenario,
    service,
    step,
    sticky,
    tcp,
    terminating,
    udp,
    unready,
    v6,
)

HTTP = Port(80, 8080, "TCP", "http")
DNS = Port(80, 8080, "UDP", "dns")


def node_port(number, protocol="TCP", name="http", target=8080):
    return Port(80, target, protocol, name, number)


def local(kind, **more):
    """The spec fields of a Service with the policy Local for "internal" or "external" traffic."""
    return {f"{kind}TrafficPolicy": "Local", **more}


def affinity(seconds=10800):
    return {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}}


# Where modes nftables and ipvs of the original differ from its mode iptables, ours do too.
FILTERED = in_ipvs(REFUSED, "what no Service has declared on an address of kube-ipvs0 is refused")
UNDECLARED = differing(
    in_nftables(REFUSED, "what no Service has declared on a cluster IP is refused, not passed on"), FILTERED)
PRIMARY_ONLY = in_nftables(REFUSED, "nodePortAddresses is [primary] unless it is set")
NO_LOOPBACK = in_ipvs(REFUSED, "there is no virtual server on 127.0.0.1")
EMPTY = in_ipvs(REFUSED, "a virtual server without a real server refuses")

# The original's mode userspace is that of v1.25. What it lacks and ours has is in docs/parity.md.
NOT_ITS_OWN = in_userspace(CLOSED, "what a node sends to an external IP is redirected only if it has the address")

SCENARIOS = []


def add(*arguments, **more):
    SCENARIOS.append(scenario(*arguments, **more))


BASIC = [
    *service("web", ["10.96.1.1", "fd00:10:96::101"], [HTTP, DNS], ["web1a", "web2a"]),
    *service("two-ports", "10.96.1.2", [HTTP, Port(81, 8081, "TCP", "alt")], ["web1a", "web2a"]),
    *service("self", ["10.96.1.3", "fd00:10:96::103"], [HTTP, DNS], ["web1a"]),
    *service("three", "10.96.1.4", [HTTP], ["web1a", "web1b", "web2a"]),
]

add("cluster-ip", [1, 2, 4, 46],
    step("static", BASIC,
         row("pod-on-node1", "client1", tcp("10.96.1.1", 80), answered("web1a", "web2a")),
         row("pod-on-node2", "client2", tcp("10.96.1.1", 80), answered("web1a", "web2a")),
         row("pod-on-node1-udp", "client1", udp("10.96.1.1", 80), answered("web1a", "web2a")),
         row("pod-on-node2-udp", "client2", udp("10.96.1.1", 80), answered("web1a", "web2a")),
         row("pod-ipv6", "client1", tcp("fd00:10:96::101", 80), answered("web1a", "web2a"), e2e=(53,)),
         row("pod-ipv6-udp", "client2", udp("fd00:10:96::101", 80), answered("web1a", "web2a"), e2e=(53,)),
         row("node", "node1", tcp("10.96.1.1", 80), answered("web1a", "web2a", source="node1")),
         row("node-udp", "node2", udp("10.96.1.1", 80), answered("web1a", "web2a", source="node2")),
         row("node-ipv6", "node1", tcp("fd00:10:96::101", 80), answered("web1a", "web2a", source="node1")),
         row("outside-is-masqueraded", "ext1", tcp("10.96.1.1", 80), answered("web1a", "web2a", source="node1")),
         row("outside-by-the-other-node", "ext2", udp("10.96.1.1", 80), answered("web1a", "web2a", source="node2")),
         row("outside-ipv6", "ext1", tcp("fd00:10:96::101", 80), answered("web1a", "web2a", source="node1")),
         row("three-endpoints", "client1", tcp("10.96.1.4", 80), answered("web1a", "web1b", "web2a")),
         row("first-of-two-ports", "client1", tcp("10.96.1.2", 80), answered("web1a:8080", "web2a:8080")),
         row("second-of-two-ports", "client1", tcp("10.96.1.2", 81), answered("web1a:8081", "web2a:8081")),
         row("a-port-nobody-declared", "client1", tcp("10.96.1.1", 81), CLOSED, **UNDECLARED),
         row("a-port-nobody-declared-from-the-node", "node1", tcp("10.96.1.1", 81), CLOSED, **UNDECLARED),
         row("a-port-nobody-declared-from-outside", "ext1", udp("10.96.1.1", 81), CLOSED, **UNDECLARED),
         row("a-port-nobody-declared-ipv6", "client1", tcp("fd00:10:96::101", 81), CLOSED, **UNDECLARED),
         row("a-protocol-nobody-declared", "client1", udp("10.96.1.2", 80), CLOSED, **UNDECLARED),
         row("hairpin", "web1a", tcp("10.96.1.3", 80), answered("web1a", source="node1"), e2e=(5,)),
         row("hairpin-udp", "web1a", udp("10.96.1.3", 80), answered("web1a", source="node1"), e2e=(5,)),
         row("hairpin-ipv6", "web1a", tcp("fd00:10:96::103", 80), answered("web1a", source="node1"), e2e=(5,)),
         row("hairpin-by-chance", "web2a", tcp("10.96.1.1", 80), answered("web1a", "web2a", source="any"), e2e=(5,)),
         row("no-hairpin-for-others", "web1b", tcp("10.96.1.3", 80), answered("web1a"))))

add("endpoints-follow", [1, 46],
    step("none", service("web", "10.96.2.1", [HTTP, DNS], []),
         row("tcp", "client1", tcp("10.96.2.1", 80), REFUSED),
         row("udp", "client1", udp("10.96.2.1", 80), REFUSED)),
    step("one", service("web", "10.96.2.1", [HTTP, DNS], ["web1a"]),
         row("tcp", "client1", tcp("10.96.2.1", 80), answered("web1a")),
         row("udp", "client2", udp("10.96.2.1", 80), answered("web1a"))),
    step("two", service("web", "10.96.2.1", [HTTP, DNS], ["web1a", "web2a"]),
         row("tcp", "client1", tcp("10.96.2.1", 80), answered("web1a", "web2a")),
         row("udp", "client2", udp("10.96.2.1", 80), answered("web1a", "web2a"))),
    step("the-other", service("web", "10.96.2.1", [HTTP, DNS], ["web2a"]),
         row("tcp", "client1", tcp("10.96.2.1", 80), answered("web2a")),
         row("udp", "client2", udp("10.96.2.1", 80), answered("web2a"))),
    step("gone", service("web", "10.96.2.1", [HTTP, DNS]),
         row("tcp", "client1", tcp("10.96.2.1", 80), REFUSED),
         row("udp", "client2", udp("10.96.2.1", 80), REFUSED)))

add("ports-added-and-removed", [3],
    step("one", service("web", "10.96.3.1", [HTTP], ["web1a"]),
         row("first", "client1", tcp("10.96.3.1", 80), answered("web1a:8080")),
         row("second", "client1", tcp("10.96.3.1", 81), CLOSED, **UNDECLARED)),
    step("two", service("web", "10.96.3.1", [HTTP, Port(81, 8081, "TCP", "alt")], ["web1a"]),
         row("first", "client1", tcp("10.96.3.1", 80), answered("web1a:8080")),
         row("second", "client1", tcp("10.96.3.1", 81), answered("web1a:8081"))),
    step("the-other", service("web", "10.96.3.1", [Port(81, 8081, "TCP", "alt")], ["web1a"]),
         row("first", "client1", tcp("10.96.3.1", 80), CLOSED, **UNDECLARED),
         row("second", "client1", tcp("10.96.3.1", 81), answered("web1a:8081"))))

ONE = service("svc1", "10.96.6.1", [HTTP], ["web1a"])
TWO = service("svc2", "10.96.6.2", [HTTP], ["web2a"])
THREE = service("svc3", "10.96.6.3", [HTTP], ["web1b"])

add("up-and-down", [6, 7],
    step("two", [*ONE, *TWO],
         row("first", "client1", tcp("10.96.6.1", 80), answered("web1a")),
         row("second", "client1", tcp("10.96.6.2", 80), answered("web2a"))),
    step("second-deleted", ONE,
         row("first", "client1", tcp("10.96.6.1", 80), answered("web1a")),
         row("second", "client1", tcp("10.96.6.2", 80), CLOSED)),
    step("third-created", [*ONE, *THREE],
         row("first", "client1", tcp("10.96.6.1", 80), answered("web1a")),
         row("second", "client1", tcp("10.96.6.2", 80), CLOSED),
         row("third", "client2", tcp("10.96.6.3", 80), answered("web1b"))),
    step("second-recreated", [*ONE, *service("svc2", "10.96.7.2", [HTTP], ["web2a"]), *THREE],
         row("old-address", "client1", tcp("10.96.6.2", 80), CLOSED),
         row("new-address", "client1", tcp("10.96.7.2", 80), answered("web2a")),
         row("third", "client2", tcp("10.96.6.3", 80), answered("web1b"))))

SURVIVORS = [
    *service("up1", ["10.96.8.1", "fd00:10:96::801"], [HTTP], ["web1a", "web2a"]),
    *service("up2", "10.96.8.2", [node_port(30008)], ["web2a"], type="NodePort"),
]


def survive(**more):
    return [row("cluster-ip", "client1", tcp("10.96.8.1", 80), answered("web1a", "web2a"), **more),
            row("cluster-ip-ipv6", "client1", tcp("fd00:10:96::801", 80), answered("web1a", "web2a"), **more),
            row("node-port", "ext1", tcp("node1", 30008), answered("web2a", source="node1"), **more)]


add("proxy-restarts", [8],
    step("running", SURVIVORS, *survive()),
    step("restarted", SURVIVORS, *survive(), do="restart"),
    step("killed", SURVIVORS, *survive(), do="kill-and-start"),
    step("stopped", SURVIVORS,
         *survive(**in_userspace(REFUSED, "connections end in the proxy, and while there is none nobody listens")), do="stop"),
    step("changed-while-stopped",
         [*service("up1", ["10.96.8.1", "fd00:10:96::801"], [HTTP], ["web1b"]),
          *service("up3", "10.96.8.3", [HTTP], ["web1a"])],
         row("changed", "client1", tcp("10.96.8.1", 80), answered("web1b")),
         row("deleted", "client1", tcp("10.96.8.2", 80), CLOSED),
         row("deleted-node-port", "ext1", tcp("node1", 30008), REFUSED),
         row("created", "client1", tcp("10.96.8.3", 80), answered("web1a")), do="start"))

NODE_PORT = [
    *service("np", ["10.96.10.1", "fd00:10:96::1001"], [node_port(30010), node_port(30010, "UDP", "dns")],
             ["web1a", "web2a"], type="NodePort"),
]
BY_NODE1 = answered("web1a", "web2a", source="node1")
BY_NODE2 = answered("web1a", "web2a", source="node2")

add("node-port", [10, 46],
    step("static", NODE_PORT,
         row("cluster-ip", "client1", tcp("10.96.10.1", 80), answered("web1a", "web2a")),
         row("outside-to-node1", "ext1", tcp("node1", 30010), BY_NODE1),
         row("outside-to-node2", "ext1", tcp("node2", 30010), BY_NODE2),
         row("outside-to-node1-udp", "ext1", udp("node1", 30010), BY_NODE1),
         row("outside-to-node2-udp", "ext1", udp("node2", 30010), BY_NODE2),
         row("outside-to-node1-ipv6", "ext1", v6(tcp("node1", 30010)), BY_NODE1, e2e=(53,)),
         row("outside-to-node2-ipv6-udp", "ext1", v6(udp("node2", 30010)), BY_NODE2, e2e=(53,)),
         row("pod-to-its-node", "client1", tcp("node1", 30010), BY_NODE1),
         row("pod-to-the-other-node", "client1", tcp("node2", 30010), BY_NODE2),
         row("node-to-itself", "node1", tcp("node1", 30010), BY_NODE1),
         row("node-to-itself-udp", "node1", udp("node1", 30010), BY_NODE1),
         row("node-to-the-other", "node1", tcp("node2", 30010), BY_NODE2),
         row("endpoint-to-its-node", "web1a", tcp("node1", 30010), BY_NODE1),
         row("another-address-of-the-node", "client1", tcp("10.244.1.1", 30010), BY_NODE1, **PRIMARY_ONLY),
         row("another-address-of-the-node-udp", "client1", udp("10.244.1.1", 30010), BY_NODE1, **PRIMARY_ONLY),
         row("another-address-of-the-node-ipv6", "client1", tcp("fd00:244:1::1", 30010), BY_NODE1, **PRIMARY_ONLY),
         row("localhost", "node1", tcp("127.0.0.1", 30010), BY_NODE1, **differing(PRIMARY_ONLY, NO_LOOPBACK)),
         row("another-port", "ext1", tcp("node1", 30011), REFUSED)))

add("node-port-changes", [46],
    step("first", service("np", "10.96.11.1", [node_port(30012)], ["web1a"], type="NodePort"),
         row("first", "ext1", tcp("node1", 30012), answered("web1a", source="node1")),
         row("second", "ext1", tcp("node1", 30013), REFUSED)),
    step("second", service("np", "10.96.11.1", [node_port(30013)], ["web1a"], type="NodePort"),
         row("first", "ext1", tcp("node1", 30012), REFUSED),
         row("second", "ext1", tcp("node1", 30013), answered("web1a", source="node1"))),
    step("removed", service("np", "10.96.11.1", [HTTP], ["web1a"]),
         row("second", "ext1", tcp("node1", 30013), REFUSED),
         row("cluster-ip", "client1", tcp("10.96.11.1", 80), answered("web1a"))),
    step("taken-by-another",
         [*service("np", "10.96.11.1", [HTTP], ["web1a"]),
          *service("other", "10.96.11.2", [node_port(30013)], ["web2a"], type="NodePort")],
         row("second", "ext1", tcp("node1", 30013), answered("web2a", source="node1"), e2e=(17,))))

add("external-ip", [11],
    step("static",
         [*service("ext", "10.96.12.1", [HTTP, DNS], ["web1a", "web2a"], externalIPs=["203.0.113.250"]),
          *service("ext6", "fd00:10:96::1202", [HTTP], ["web1a", "web2a"], externalIPs=["fd00:cb00:71::250"])],
         row("pod-on-node1", "client1", tcp("203.0.113.250", 80), BY_NODE1),
         row("pod-on-node2", "client2", tcp("203.0.113.250", 80), BY_NODE2),
         row("pod-udp", "client1", udp("203.0.113.250", 80), BY_NODE1),
         row("pod-ipv6", "client1", tcp("fd00:cb00:71::250", 80), BY_NODE1),
         row("node", "node1", tcp("203.0.113.250", 80), BY_NODE1, **NOT_ITS_OWN),
         row("outside", "ext2", tcp("203.0.113.250", 80), BY_NODE2),
         row("another-port", "client1", tcp("203.0.113.250", 81), CLOSED, **FILTERED)))

BOTH = [node_port(30020), node_port(30020, "UDP", "dns")]
CLUSTER_IP_TCP = row("cluster-ip", "client1", tcp("10.96.20.1", 80), answered("web1a"))
NODE_PORT_TCP = row("node-port", "ext1", tcp("node1", 30020), answered("web1a", source="node1"))
NODE_PORT_UDP = row("node-port-udp", "ext1", udp("node2", 30020), answered("web1a", source="node2"))
EXTERNAL_NAME = service("morph", "10.96.20.1", [HTTP], ["web1a"], type="ExternalName", externalName="example.com")

add("type-changes", [13, 14, 15, 16],
    step("external-name", EXTERNAL_NAME,
         row("cluster-ip", "client1", tcp("10.96.20.1", 80), CLOSED)),
    step("to-cluster-ip", service("morph", "10.96.20.1", [HTTP], ["web1a"]), CLUSTER_IP_TCP,
         row("node-port", "ext1", tcp("node1", 30020), REFUSED)),
    step("back", service("morph", [], [], type="ExternalName", externalName="example.com"),
         row("cluster-ip", "client1", tcp("10.96.20.1", 80), CLOSED)),
    step("to-node-port", service("morph", "10.96.20.1", [node_port(30020)], ["web1a"], type="NodePort"),
         CLUSTER_IP_TCP, NODE_PORT_TCP),
    step("back-again", EXTERNAL_NAME,
         row("cluster-ip", "client1", tcp("10.96.20.1", 80), CLOSED),
         row("node-port", "ext1", tcp("node1", 30020), REFUSED)),
    step("to-cluster-ip-again", service("morph", "10.96.20.1", [HTTP], ["web1a"]), CLUSTER_IP_TCP),
    step("to-two-protocols", service("morph", "10.96.20.1", BOTH, ["web1a"], type="NodePort"),
         row("cluster-ip", "client1", tcp("10.96.20.1", 80), answered("web1a"), e2e=(12,)),
         row("cluster-ip-udp", "client1", udp("10.96.20.1", 80), answered("web1a"), e2e=(12,)),
         NODE_PORT_TCP, NODE_PORT_UDP))

add("unready", [18, 25],
    step("not-published",
         [*service("un", "10.96.21.1", [node_port(30021)], [unready("web1a")], type="NodePort"),
          *service("mixed", "10.96.21.2", [HTTP], [unready("web1a"), "web2a"]),
          *service("evicted", "10.96.21.3", [HTTP], [])],
         row("pod", "client1", tcp("10.96.21.1", 80), REFUSED),
         row("outside", "ext1", tcp("node1", 30021), REFUSED),
         row("only-the-ready-one", "client1", tcp("10.96.21.2", 80), answered("web2a")),
         row("evicted-pods", "client1", tcp("10.96.21.3", 80), REFUSED)),
    step("published",
         service("un", "10.96.21.1", [node_port(30021)], [pod("web1a", ready=True, serving=False)], type="NodePort",
                 publishNotReadyAddresses=True),
         row("pod", "client1", tcp("10.96.21.1", 80), answered("web1a")),
         row("outside", "ext1", tcp("node1", 30021), answered("web1a", source="node1"))),
    step("published-and-terminating",
         service("un", "10.96.21.1", [node_port(30021)],
                 [pod("web1a", ready=True, serving=False, terminating=True)], type="NodePort",
                 publishNotReadyAddresses=True),
         row("pod", "client1", tcp("10.96.21.1", 80), answered("web1a")),
         row("outside", "ext1", tcp("node1", 30021), answered("web1a", source="node1"))),
    step("no-longer-published",
         service("un", "10.96.21.1", [node_port(30021)], [unready("web1a")], type="NodePort"),
         row("pod", "client1", tcp("10.96.21.1", 80), REFUSED),
         row("outside", "ext1", tcp("node1", 30021), REFUSED)),
    step("not-ready-but-serving",
         service("un", "10.96.21.1", [node_port(30021)], [pod("web1a", ready=False, serving=True)], type="NodePort"),
         row("pod", "client1", tcp("10.96.21.1", 80), REFUSED)))

add("affinity", [19, 47],
    step("static",
         [*service("sticky", ["10.96.22.1", "fd00:10:96::2201"],
                   [node_port(30022), node_port(30022, "UDP", "dns")], ["web1a", "web1b", "web2a", "web2b"],
                   type="NodePort", **affinity()),
          *service("loose", "10.96.22.2", [HTTP], ["web1a", "web2a"])],
         row("cluster-ip", "client1", tcp("10.96.22.1", 80), sticky("web1a", "web1b", "web2a", "web2b")),
         row("cluster-ip-udp", "client1", udp("10.96.22.1", 80), sticky("web1a", "web1b", "web2a", "web2b")),
         row("cluster-ip-ipv6", "client2", tcp("fd00:10:96::2201", 80), sticky("web1a", "web1b", "web2a", "web2b")),
         row("node-port", "ext1", tcp("node1", 30022), sticky("web1a", "web1b", "web2a", "web2b", source="node1")),
         row("node-port-udp", "ext2", udp("node1", 30022),
             sticky("web1a", "web1b", "web2a", "web2b", source="node1")),
         row("node-port-from-the-node", "node1", tcp("node1", 30022),
             sticky("web1a", "web1b", "web2a", "web2b", source="node1")),
         row("none", "client1", tcp("10.96.22.2", 80), answered("web1a", "web2a"))))

STILL_CLOSING = "the time begins when IPVS has forgotten the client's connections, two minutes after they were closed"

add("affinity-times-out", [20],
    step("static",
         service("brief", "10.96.23.1", [node_port(30023)], ["web1a", "web2a"], type="NodePort", **affinity(2)),
         row("cluster-ip", "client1", tcp("10.96.23.1", 80), sticky("web1a", "web2a", moves_after=2),
             **in_ipvs(sticky("web1a", "web2a"), STILL_CLOSING)),
         row("node-port", "ext1", tcp("node1", 30023), sticky("web1a", "web2a", source="node1", moves_after=2),
             **in_ipvs(sticky("web1a", "web2a", source="node1"), STILL_CLOSING))))

LOOSE = service("toggle", "10.96.24.1", [node_port(30024)], ["web1a", "web2a"], type="NodePort")
STICKY = service("toggle", "10.96.24.1", [node_port(30024)], ["web1a", "web2a"], type="NodePort", **affinity())

add("affinity-toggles", [21],
    step("off", LOOSE,
         row("cluster-ip", "client1", tcp("10.96.24.1", 80), answered("web1a", "web2a")),
         row("node-port", "ext1", tcp("node1", 30024), BY_NODE1)),
    step("on", STICKY,
         row("cluster-ip", "client1", tcp("10.96.24.1", 80), sticky("web1a", "web2a")),
         row("node-port", "ext1", tcp("node1", 30024), sticky("web1a", "web2a", source="node1"))),
    step("off-again", LOOSE,
         row("cluster-ip", "client1", tcp("10.96.24.1", 80), answered("web1a", "web2a")),
         row("node-port", "ext1", tcp("node1", 30024), BY_NODE1)),
    step("on-again", STICKY,
         row("cluster-ip", "client1", tcp("10.96.24.1", 80), sticky("web1a", "web2a"))),
    step("its-endpoint-gone", service("toggle", "10.96.24.1", [node_port(30024)], ["web2b"], type="NodePort",
                                      **affinity()),
         row("cluster-ip", "client1", tcp("10.96.24.1", 80), sticky("web2b"))))

PLAIN = service("plain", "10.96.25.2", [HTTP], ["web2a"])
PLAIN_ROW = row("neighbour", "client1", tcp("10.96.25.2", 80), answered("web2a"))
PROXY_NAME = {"service.kubernetes.io/service-proxy-name": "somebody-else"}

add("another-proxy-claims-it", [22],
    step("labelled", [*PLAIN, *service("claimed", "10.96.25.1", [HTTP], ["web1a"], labels=PROXY_NAME)],
         row("claimed", "client1", tcp("10.96.25.1", 80), CLOSED), PLAIN_ROW),
    step("label-removed", [*PLAIN, *service("claimed", "10.96.25.1", [HTTP], ["web1a"])],
         row("claimed", "client1", tcp("10.96.25.1", 80), answered("web1a")), PLAIN_ROW),
    step("label-added", [*PLAIN, *service("claimed", "10.96.25.1", [HTTP], ["web1a"], labels=PROXY_NAME)],
         row("claimed", "client1", tcp("10.96.25.1", 80), CLOSED), PLAIN_ROW))

HEADLESS = {"service.kubernetes.io/headless": ""}
BESIDE = service("plain", "10.96.25.4", [HTTP], ["web2a"])
BESIDE_ROW = row("neighbour", "client1", tcp("10.96.25.4", 80), answered("web2a"))

add("headless", [23],
    step("labelled",
         [*BESIDE, *service("bare", "10.96.25.3", [HTTP], ["web1a"], labels=HEADLESS, slice_labels=HEADLESS.items()),
          *service("none", "None", [HTTP], ["web1a"])],
         row("bare", "client1", tcp("10.96.25.3", 80), CLOSED), BESIDE_ROW),
    step("label-removed", [*BESIDE, *service("bare", "10.96.25.3", [HTTP], ["web1a"])],
         row("bare", "client1", tcp("10.96.25.3", 80), answered("web1a")), BESIDE_ROW),
    step("label-added",
         [*BESIDE, *service("bare", "10.96.25.3", [HTTP], ["web1a"], labels=HEADLESS, slice_labels=HEADLESS.items())],
         row("bare", "client1", tcp("10.96.25.3", 80), CLOSED), BESIDE_ROW))

add("no-endpoints", [24],
    step("static",
         [*service("empty", ["10.96.26.1", "fd00:10:96::2601"], [node_port(30026), node_port(30026, "UDP", "dns")], [],
                   type="LoadBalancer", externalIPs=["198.51.100.26"], load_balancer_ips=["203.0.113.26"]),
          *service("no-slice", "10.96.26.2", [HTTP])],
         row("pod", "client1", tcp("10.96.26.1", 80), REFUSED),
         row("pod-udp", "client1", udp("10.96.26.1", 80), REFUSED),
         row("pod-ipv6", "client1", tcp("fd00:10:96::2601", 80), REFUSED),
         row("pod-ipv6-udp", "client1", udp("fd00:10:96::2601", 80), REFUSED),
         row("node", "node1", tcp("10.96.26.1", 80), REFUSED),
         row("node-udp", "node1", udp("10.96.26.1", 80), REFUSED),
         row("outside", "ext1", tcp("10.96.26.1", 80), REFUSED),
         row("no-slice", "client2", tcp("10.96.26.2", 80), REFUSED),
         row("node-port", "ext1", tcp("node1", 30026), REFUSED),
         row("node-port-udp", "ext1", udp("node2", 30026), REFUSED),
         row("node-port-ipv6", "ext1", v6(tcp("node1", 30026)), REFUSED),
         row("external-ip", "client1", tcp("198.51.100.26", 80), REFUSED),
         row("external-ip-from-outside", "ext1", tcp("198.51.100.26", 80), REFUSED),
         row("load-balancer", "ext1", tcp("203.0.113.26", 80), REFUSED),
         row("load-balancer-udp", "ext2", udp("203.0.113.26", 80), REFUSED)))

add("internal-local", [26, 27],
    step("static",
         [*service("on1", ["10.96.27.1", "fd00:10:96::2701"], [HTTP, DNS], ["web1a"], **local("internal")),
          *service("both", "10.96.27.2", [HTTP], ["web1a", "web2a", "web2b"], **local("internal")),
          *service("host", "10.96.27.3", [Port(80, 7080)], ["node1"], **local("internal")),
          *service("hosts", "10.96.27.4", [Port(80, 7080)], ["node1", "node2"], **local("internal")),
          *service("np", "10.96.27.5", [node_port(30027)], ["web1a"], type="NodePort", **local("internal"))],
         row("pod-same-node", "client1", tcp("10.96.27.1", 80), answered("web1a")),
         row("pod-same-node-udp", "client1", udp("10.96.27.1", 80), answered("web1a")),
         row("pod-same-node-ipv6", "client1", tcp("fd00:10:96::2701", 80), answered("web1a")),
         row("pod-other-node", "client2", tcp("10.96.27.1", 80), DROPPED, **EMPTY),
         row("pod-other-node-udp", "client2", udp("10.96.27.1", 80), DROPPED, **EMPTY),
         row("pod-other-node-ipv6", "client2", tcp("fd00:10:96::2701", 80), DROPPED, **EMPTY),
         row("node-same-node", "node1", tcp("10.96.27.1", 80), answered("web1a", source="node1")),
         row("node-other-node", "node2", tcp("10.96.27.1", 80), DROPPED, **EMPTY),
         row("only-node1", "client1", tcp("10.96.27.2", 80), answered("web1a")),
         row("only-node2", "client2", tcp("10.96.27.2", 80), answered("web2a", "web2b")),
         row("host-network-endpoint", "client1", tcp("10.96.27.3", 80), answered("node1")),
         row("host-network-endpoint-other-node", "client2", tcp("10.96.27.3", 80), DROPPED, **EMPTY),
         row("host-network-both", "node1", tcp("10.96.27.3", 80), answered("node1", source="node1")),
         row("host-network-own-endpoint", "client2", tcp("10.96.27.4", 80), answered("node2")),
         row("node-port-is-not-internal", "ext1", tcp("node2", 30027), answered("web1a", source="node2"))))

add("external-local", [28, 49],
    step("static",
         [*service("on1", ["10.96.28.1", "fd00:10:96::2801"], [node_port(30028), node_port(30028, "UDP", "dns")],
                   ["web1a"], type="LoadBalancer", load_balancer_ips=["203.0.113.28", "fd00:cb00:71::28"],
                   healthCheckNodePort=31028, **local("external")),
          *service("both", "10.96.28.2", [node_port(30029)], ["web1a", "web1b", "web2a"], type="NodePort",
                   **local("external")),
          *service("host", "10.96.28.3", [node_port(30030, target=7080)], ["node1"], type="NodePort",
                   **local("external")),
          *service("bare", "10.96.28.4", [HTTP], ["web1a"], externalIPs=["198.51.100.28"], **local("external"))],
         row("node-with-endpoint", "ext1", tcp("node1", 30028), answered("web1a")),
         row("node-with-endpoint-udp", "ext1", udp("node1", 30028), answered("web1a")),
         row("node-with-endpoint-ipv6", "ext1", v6(tcp("node1", 30028)), answered("web1a")),
         row("node-without-endpoint", "ext1", tcp("node2", 30028), DROPPED),
         row("node-without-endpoint-udp", "ext1", udp("node2", 30028), DROPPED),
         row("node-without-endpoint-ipv6", "ext1", v6(tcp("node2", 30028)), DROPPED),
         row("node1-only-its-own", "ext1", tcp("node1", 30029), answered("web1a", "web1b")),
         row("node2-only-its-own", "ext1", tcp("node2", 30029), answered("web2a")),
         row("pod-to-its-node-is-short-circuited", "client2", tcp("node2", 30028), answered("web1a")),
         row("pod-to-the-other-node", "client2", tcp("node1", 30028), answered("web1a")),
         row("node-to-itself-is-short-circuited", "node2", tcp("node2", 30028), answered("web1a", source="node2")),
         row("another-node-is-outside", "node2", tcp("node1", 30028), answered("web1a", source="node2")),
         row("another-node-to-a-node-without", "node1", tcp("node2", 30028), DROPPED),
         row("cluster-ip-is-not-external", "client2", tcp("10.96.28.1", 80), answered("web1a")),
         row("load-balancer", "ext1", tcp("203.0.113.28", 80), answered("web1a")),
         row("load-balancer-ipv6", "ext1", tcp("fd00:cb00:71::28", 80), answered("web1a")),
         row("load-balancer-by-a-node-without", "ext2", tcp("203.0.113.28", 80), DROPPED),
         row("load-balancer-from-a-pod", "client2", tcp("203.0.113.28", 80), answered("web1a")),
         row("load-balancer-from-a-node", "node2", tcp("203.0.113.28", 80), answered("web1a", source="node2"),
             **in_ipvs(DROPPED, "a node that has the address sends from it, and with policy Local nothing replaces that")),
         row("host-network-endpoint", "ext1", tcp("node1", 30030), answered("node1")),
         row("host-network-endpoint-elsewhere", "ext1", tcp("node2", 30030), DROPPED),
         row("external-ip", "ext1", tcp("198.51.100.28", 80), answered("web1a")),
         row("external-ip-by-a-node-without", "ext2", tcp("198.51.100.28", 80), DROPPED)))

add("external-policy-changes", [28],
    step("local", service("np", "10.96.28.6", [node_port(30031)], ["web1a"], type="NodePort", **local("external")),
         row("with", "ext1", tcp("node1", 30031), answered("web1a")),
         row("without", "ext1", tcp("node2", 30031), DROPPED)),
    step("cluster", service("np", "10.96.28.6", [node_port(30031)], ["web1a"], type="NodePort"),
         row("with", "ext1", tcp("node1", 30031), answered("web1a", source="node1")),
         row("without", "ext1", tcp("node2", 30031), answered("web1a", source="node2"))),
    step("local-again",
         service("np", "10.96.28.6", [node_port(30031)], ["web2a"], type="NodePort", **local("external")),
         row("now-without", "ext1", tcp("node1", 30031), DROPPED),
         row("now-with", "ext1", tcp("node2", 30031), answered("web2a"))))

add("terminating", [30, 31, 32, 33],
    step("static",
         [*service("cluster", "10.96.30.1", [HTTP, DNS], [terminating("web1a"), terminating("web2a")]),
          *service("inner", "10.96.30.2", [HTTP], [terminating("web1a")], **local("internal")),
          *service("np", "10.96.30.3", [node_port(30032)], [terminating("web1a")], type="NodePort"),
          *service("outer", "10.96.30.4", [node_port(30033)], [terminating("web1a")], type="NodePort",
                   **local("external")),
          *service("mixed", "10.96.30.5", [HTTP], [terminating("web1a"), "web2a"]),
          *service("mixed-local", "10.96.30.6", [node_port(30034)], [terminating("web1a"), "web2a"], type="NodePort",
                   **local("external")),
          *service("done", "10.96.30.7", [HTTP], [pod("web1a", ready=False, serving=False, terminating=True)])],
         row("internal-cluster", "client1", tcp("10.96.30.1", 80), answered("web1a", "web2a")),
         row("internal-cluster-udp", "client2", udp("10.96.30.1", 80), answered("web1a", "web2a")),
         row("internal-local", "client1", tcp("10.96.30.2", 80), answered("web1a")),
         row("internal-local-elsewhere", "client2", tcp("10.96.30.2", 80), DROPPED, **EMPTY),
         row("external-cluster-node1", "ext1", tcp("node1", 30032), answered("web1a", source="node1")),
         row("external-cluster-node2", "ext1", tcp("node2", 30032), answered("web1a", source="node2")),
         row("external-local", "ext1", tcp("node1", 30033), answered("web1a")),
         row("external-local-elsewhere", "ext1", tcp("node2", 30033), DROPPED),
         row("a-ready-one-is-preferred", "client1", tcp("10.96.30.5", 80), answered("web2a")),
         row("a-local-one-beats-a-remote-ready-one", "ext1", tcp("node1", 30034), answered("web1a")),
         row("the-ready-one-on-its-node", "ext1", tcp("node2", 30034), answered("web2a")),
         row("short-circuit-prefers-ready", "client1", tcp("node1", 30034), answered("web2a"),
             **in_ipvs(answered("web1a"), "pods get what the node has for everybody else, there is no short circuit")),
         row("not-serving-any-more", "client1", tcp("10.96.30.7", 80), REFUSED)))

LB = {"type": "LoadBalancer", "load_balancer_ips": ["203.0.113.34"]}

add("protocols-on-one-port", [34, 35],
    step("both",
         [*service("two", "10.96.34.1", [HTTP, DNS], ["web1a"]),
          *service("lb", "10.96.34.2", [node_port(30035), node_port(30035, "UDP", "dns")], ["web2a"], **LB)],
         row("tcp", "client1", tcp("10.96.34.1", 80), answered("web1a")),
         row("udp", "client1", udp("10.96.34.1", 80), answered("web1a")),
         row("lb-cluster-ip-tcp", "client1", tcp("10.96.34.2", 80), answered("web2a")),
         row("lb-cluster-ip-udp", "client1", udp("10.96.34.2", 80), answered("web2a")),
         row("lb-address-tcp", "client1", tcp("203.0.113.34", 80), answered("web2a", source="node1")),
         row("lb-address-udp", "client1", udp("203.0.113.34", 80), answered("web2a", source="node1")),
         row("lb-address-from-outside", "ext1", tcp("203.0.113.34", 80), answered("web2a", source="node1"))),
    step("only-tcp",
         [*service("two", "10.96.34.1", [HTTP], ["web1a"]),
          *service("lb", "10.96.34.2", [node_port(30035)], ["web2a"], **LB)],
         row("tcp", "client1", tcp("10.96.34.1", 80), answered("web1a")),
         row("udp", "client1", udp("10.96.34.1", 80), CLOSED, **UNDECLARED),
         row("lb-cluster-ip-tcp", "client1", tcp("10.96.34.2", 80), answered("web2a")),
         row("lb-cluster-ip-udp", "client1", udp("10.96.34.2", 80), CLOSED, **UNDECLARED),
         row("lb-address-udp", "client1", udp("203.0.113.34", 80), CLOSED, **FILTERED)),
    step("only-udp",
         [*service("two", "10.96.34.1", [DNS], ["web1a"]),
          *service("lb", "10.96.34.2", [node_port(30035, "UDP", "dns")], ["web2a"], **LB)],
         row("tcp", "client1", tcp("10.96.34.1", 80), CLOSED, **UNDECLARED),
         row("udp", "client1", udp("10.96.34.1", 80), answered("web1a")),
         row("lb-cluster-ip-tcp", "client1", tcp("10.96.34.2", 80), CLOSED, **UNDECLARED),
         row("lb-cluster-ip-udp", "client1", udp("10.96.34.2", 80), answered("web2a"))))

# Rules only: no SCTP packet is sent, as the kernel may have no SCTP sockets. What is shown is that the rules are
# accepted by the kernel and that the services beside them work.
add("sctp-rules-only", [36],
    step("static",
         [*service("sctp", ["10.96.36.1", "fd00:10:96::3601"],
                   [Port(80, 8080, "SCTP", "assoc", 30036), node_port(30036)], ["web1a"], type="NodePort"),
          *service("sctp-empty", "10.96.36.2", [Port(80, 8080, "SCTP", "assoc")], []),
          *service("beside", "10.96.36.3", [HTTP, DNS], ["web2a"])],
         row("tcp-of-the-same-service", "client1", tcp("10.96.36.1", 80), answered("web1a")),
         row("tcp-of-the-same-node-port", "ext1", tcp("node1", 30036), answered("web1a", source="node1")),
         row("beside", "client1", tcp("10.96.36.3", 80), answered("web2a")),
         row("beside-udp", "client1", udp("10.96.36.3", 80), answered("web2a"))))

add("target-ports-differ", [38],
    step("static",
         [*service("named", "10.96.38.1", [Port(80, 0, "TCP", "http"), Port(90, 0, "TCP", "admin")]),
          Slice("named", ("web1a",), (Port(0, 8080, "TCP", "http"), Port(0, 8082, "TCP", "admin")), suffix="a"),
          Slice("named", ("web2a",), (Port(0, 8081, "TCP", "http"),), suffix="b")],
         row("http", "client1", tcp("10.96.38.1", 80), answered("web1a:8080", "web2a:8081")),
         row("admin", "client1", tcp("10.96.38.1", 90), answered("web1a:8082"))),
    step("moved",
         [*service("named", "10.96.38.1", [Port(80, 0, "TCP", "http"), Port(90, 0, "TCP", "admin")]),
          Slice("named", ("web1a",), (Port(0, 8082, "TCP", "http"), Port(0, 8080, "TCP", "admin")), suffix="a")],
         row("http", "client1", tcp("10.96.38.1", 80), answered("web1a:8082")),
         row("admin", "client1", tcp("10.96.38.1", 90), answered("web1a:8080"))))

# TODO: drop this when the daemon deletes the conntrack entries of UDP flows to endpoints that are gone.
UDP_NP = [node_port(30040, "UDP", "dns")]
HELD = {"source_port": 40040}

add("udp-flows-follow", [40, 41, 43],
    step("unready", service("dns", "10.96.40.1", UDP_NP, [unready("web1a")], type="NodePort"),
         row("cluster-ip", "client1", udp("10.96.40.1", 80), REFUSED, **HELD),
         row("node-port", "ext1", udp("node1", 30040), REFUSED, **HELD)),
    step("ready", service("dns", "10.96.40.1", UDP_NP, ["web1a"], type="NodePort"),
         row("cluster-ip", "client1", udp("10.96.40.1", 80), answered("web1a:8080"), **HELD),
         row("node-port", "ext1", udp("node1", 30040), answered("web1a:8080", source="node1"), **HELD),
         row("node", "node1", udp("10.96.40.1", 80), answered("web1a:8080", source="node1"), **HELD)),
    step("replaced", service("dns", "10.96.40.1", UDP_NP, ["web2a"], type="NodePort"),
         row("cluster-ip", "client1", udp("10.96.40.1", 80), answered("web2a:8080"), **HELD),
         row("node-port", "ext1", udp("node1", 30040), answered("web2a:8080", source="node1"), **HELD),
         row("node", "node1", udp("10.96.40.1", 80), answered("web2a:8080", source="node1"), **HELD)),
    step("target-port-changed",
         service("dns", "10.96.40.1", [node_port(30040, "UDP", "dns", target=8081)], ["web2a"], type="NodePort"),
         row("cluster-ip", "client1", udp("10.96.40.1", 80), answered("web2a:8081"), **HELD),
         row("node-port", "ext1", udp("node1", 30040), answered("web2a:8081", source="node1"), **HELD)))


HELD_EVERYWHERE = {"type": "LoadBalancer", "load_balancer_ips": ["203.0.113.40"], "externalIPs": ["198.51.100.40"]}


def held(*pods):
    """A UDP Service with every kind of front end, and one whose policy is Local."""
    return [*service("lb", "10.96.40.2", [DNS], pods, **HELD_EVERYWHERE, allocateLoadBalancerNodePorts=False),
            *service("near", "10.96.40.3", [DNS], pods, **local("internal"))]


def held_rows(pod):
    return [row("load-balancer", "ext1", udp("203.0.113.40", 80), answered(pod, source="node1"), **HELD),
            row("external-ip", "ext1", udp("198.51.100.40", 80), answered(pod, source="node1"), **HELD),
            row("load-balancer-from-a-pod", "client1", udp("203.0.113.40", 80), answered(pod, source="any"), **HELD),
            row("internal-local", "client1", udp("10.96.40.3", 80), answered(pod), **HELD)]


add("udp-flows-follow-everywhere", [40, 51],
    step("one", held("web1a"), *held_rows("web1a")),
    step("replaced-on-the-node", held("web1b"), *held_rows("web1b")),
    step("replaced-on-another-node", held("web2a"), *held_rows("web2a")[:3],
         row("internal-local", "client1", udp("10.96.40.3", 80), DROPPED, **HELD, **EMPTY)),
    step("scaled-to-zero", held(),
         row("load-balancer", "ext1", udp("203.0.113.40", 80), REFUSED, **HELD),
         row("internal-local", "client1", udp("10.96.40.3", 80), REFUSED, **HELD)),
    step("back", held("web1a"), *held_rows("web1a")),
    step("deleted", [],
         row("load-balancer", "ext1", udp("203.0.113.40", 80), CLOSED, **HELD),
         row("internal-local", "client1", udp("10.96.40.3", 80), CLOSED, **HELD)))

FLUSHED = [
    *service("back", ["10.96.45.1", "fd00:10:96::4501"], [HTTP], ["web1a", "web2a"]),
    *service("back-np", "10.96.45.2", [node_port(30045)], ["web2a"], type="NodePort"),
]

add("rules-are-restored", [45],
    step("before", FLUSHED,
         row("cluster-ip", "client1", tcp("10.96.45.1", 80), answered("web1a", "web2a"))),
    step("after-a-flush", FLUSHED,
         row("cluster-ip", "client1", tcp("10.96.45.1", 80), answered("web1a", "web2a"), seconds=8),
         row("cluster-ip-ipv6", "client1", tcp("fd00:10:96::4501", 80), answered("web1a", "web2a"), seconds=8),
         row("other-node", "client2", tcp("10.96.45.1", 80), answered("web1a", "web2a"), seconds=8),
         row("node-port", "ext1", tcp("node1", 30045), answered("web2a", source="node1"), seconds=8), do="flush"),
    step("changes-still-work", [*FLUSHED, *service("new", "10.96.45.3", [HTTP], ["web1a"])],
         row("old", "client1", tcp("10.96.45.1", 80), answered("web1a", "web2a")),
         row("new", "client1", tcp("10.96.45.3", 80), answered("web1a"))),
    needs="rules-restored")

add("large-requests", [47],
    step("static",
         service("big", ["10.96.47.1", "fd00:10:96::4701"], [node_port(30047), node_port(30047, "UDP", "dns")],
                 ["web1a", "web2a"], type="NodePort"),
         row("udp-fragments", "client1", udp("10.96.47.1", 80), answered("web1a", "web2a"), payload=4000),
         row("udp-many-fragments", "client1", udp("10.96.47.1", 80), answered("web1a", "web2a"), payload=30000),
         row("udp-fragments-ipv6", "client1", udp("fd00:10:96::4701", 80), answered("web1a", "web2a"), payload=4000),
         row("udp-fragments-node-port", "ext1", udp("node1", 30047), BY_NODE1, payload=4000),
         row("tcp", "client1", tcp("10.96.47.1", 80), answered("web1a", "web2a"), payload=1000000),
         row("tcp-node-port", "ext1", tcp("node2", 30047), BY_NODE2, payload=1000000)))

# A packet that ends on the node it came to is not masqueraded: it never leaves.
add("host-network-endpoints", [47],
    step("static",
         [*service("hosts", ["10.96.48.1", "fd00:10:96::4801"],
                   [node_port(30048, target=7080), node_port(30048, "UDP", "dns", 7080)], ["node1", "node2"],
                   type="NodePort"),
          *service("host1", "10.96.48.2", [node_port(30063, target=7080), node_port(30063, "UDP", "dns", 7080)],
                   ["node1"], type="NodePort")],
         row("pod", "client1", tcp("10.96.48.1", 80), answered("node1", "node2")),
         row("pod-udp", "client1", udp("10.96.48.1", 80), answered("node1", "node2")),
         row("pod-ipv6", "client1", tcp("fd00:10:96::4801", 80), answered("node1", "node2")),
         row("node", "node1", tcp("10.96.48.1", 80), answered("node1", "node2", source="node1")),
         row("node-udp", "node1", udp("10.96.48.1", 80), answered("node1", "node2", source="node1")),
         row("outside", "ext1", tcp("node1", 30048), answered("node1", "node2", source="any")),
         row("outside-udp", "ext1", udp("node2", 30048), answered("node1", "node2", source="any")),
         row("outside-to-its-node", "ext1", tcp("node1", 30063), answered("node1")),
         row("outside-to-the-other-node", "ext1", tcp("node2", 30063), answered("node1", source="node2")),
         row("outside-to-the-other-node-udp", "ext1", udp("node2", 30063), answered("node1", source="node2"))))

RANGED = {
    "type": "LoadBalancer", "load_balancer_ips": ["203.0.113.48"], "loadBalancerSourceRanges": ["172.31.0.100/32"],
}
FOR_CLUSTER = {
    "type": "LoadBalancer", "load_balancer_ips": ["203.0.113.49"],
    "loadBalancerSourceRanges": ["172.31.0.11/32", "10.244.1.0/24"],
}

add("load-balancer-source-ranges", [48, 51],
    step("ranges",
         [*service("fw", "10.96.49.1", [node_port(30049), node_port(30049, "UDP", "dns")], ["web1a", "web2a"],
                   **RANGED),
          *service("inner", "10.96.49.2", [node_port(30050)], ["web1a", "web2a"], **FOR_CLUSTER),
          *service("no-node-port", "10.96.49.3", [HTTP], ["web1a"], type="LoadBalancer",
                   load_balancer_ips=["203.0.113.50"], allocateLoadBalancerNodePorts=False)],
         row("allowed", "ext1", tcp("203.0.113.48", 80), BY_NODE1),
         row("allowed-udp", "ext1", udp("203.0.113.48", 80), BY_NODE1),
         row("others", "ext2", tcp("203.0.113.48", 80), DROPPED),
         row("others-udp", "ext2", udp("203.0.113.48", 80), DROPPED),
         row("pod-not-allowed", "client1", tcp("203.0.113.48", 80), DROPPED),
         row("node-not-allowed", "node1", tcp("203.0.113.48", 80), DROPPED),
         row("cluster-ip-is-free", "client2", tcp("10.96.49.1", 80), answered("web1a", "web2a")),
         row("node-port-is-free", "ext2", tcp("node1", 30049), BY_NODE1),
         row("pod-allowed", "client1", tcp("203.0.113.49", 80), BY_NODE1),
         row("pod-on-the-other-node", "client2", tcp("203.0.113.49", 80), DROPPED),
         row("node-allowed", "node1", tcp("203.0.113.49", 80), BY_NODE1),
         row("other-node", "node2", tcp("203.0.113.49", 80), DROPPED),
         row("without-node-port", "ext1", tcp("203.0.113.50", 80), answered("web1a", source="node1"))),
    step("another-range",
         service("fw", "10.96.49.1", [node_port(30049), node_port(30049, "UDP", "dns")], ["web1a", "web2a"],
                 **{**RANGED, "loadBalancerSourceRanges": ["172.31.0.101/32"]}),
         row("first", "ext1", tcp("203.0.113.48", 80), DROPPED),
         row("second", "ext2", tcp("203.0.113.48", 80), BY_NODE2)),
    step("no-ranges",
         service("fw", "10.96.49.1", [node_port(30049), node_port(30049, "UDP", "dns")], ["web1a", "web2a"],
                 **{**RANGED, "loadBalancerSourceRanges": []}),
         row("first", "ext1", tcp("203.0.113.48", 80), BY_NODE1),
         row("second", "ext2", tcp("203.0.113.48", 80), BY_NODE2),
         row("pod", "client1", tcp("203.0.113.48", 80), BY_NODE1)))


def in_zone(name, zone, **more):
    return pod(name, for_zones=[zone], **more)


def on_node(name, zone, node, **more):
    return pod(name, for_zones=[zone], for_nodes=[node], **more)


add("traffic-distribution", [52],
    step("static",
         [*service("zonal", ["10.96.52.1", "fd00:10:96::5201"], [node_port(30052)],
                   [in_zone("web1a", "zone-a"), in_zone("web1b", "zone-a"), in_zone("web2a", "zone-b")],
                   type="NodePort", trafficDistribution="PreferClose"),
          *service("nodal", "10.96.52.2", [HTTP],
                   [on_node("web1a", "zone-a", "node1"), on_node("web2a", "zone-a", "node2")],
                   trafficDistribution="PreferSameNode"),
          *service("half", "10.96.52.3", [HTTP], [in_zone("web1a", "zone-a"), "web2a"],
                   trafficDistribution="PreferSameZone"),
          *service("elsewhere", "10.96.52.4", [HTTP], [in_zone("web1a", "zone-c"), in_zone("web2a", "zone-c")],
                   trafficDistribution="PreferSameZone"),
          *service("node-then-zone", "10.96.52.5", [HTTP],
                   [on_node("web2a", "zone-b", "node2"), on_node("web1a", "zone-a", "node3"),
                    on_node("web1b", "zone-c", "node4")], trafficDistribution="PreferSameNode"),
          *service("unready", "10.96.52.6", [HTTP],
                   [in_zone("web1a", "zone-a", ready=False, serving=False), in_zone("web2a", "zone-b")],
                   trafficDistribution="PreferSameZone")],
         row("zone-a", "client1", tcp("10.96.52.1", 80), answered("web1a", "web1b")),
         row("zone-b", "client2", tcp("10.96.52.1", 80), answered("web2a")),
         row("zone-ipv6", "client2", tcp("fd00:10:96::5201", 80), answered("web2a")),
         row("zone-of-the-node-that-is-asked", "ext1", tcp("node2", 30052), answered("web2a", source="node2")),
         row("node1", "client1", tcp("10.96.52.2", 80), answered("web1a")),
         row("node2", "client2", tcp("10.96.52.2", 80), answered("web2a")),
         row("a-missing-hint-switches-it-off", "client1", tcp("10.96.52.3", 80), answered("web1a", "web2a")),
         row("nobody-in-the-zone", "client1", tcp("10.96.52.4", 80), answered("web1a", "web2a")),
         row("no-node-so-zone", "client1", tcp("10.96.52.5", 80), answered("web1a")),
         row("the-node-has-one", "client2", tcp("10.96.52.5", 80), answered("web2a")),
         row("nobody-ready-in-the-zone", "client1", tcp("10.96.52.6", 80), answered("web2a"))),
    step("own-node-gone",
         service("nodal", "10.96.52.2", [HTTP], [on_node("web2a", "zone-a", "node2")],
                 trafficDistribution="PreferSameNode"),
         row("falls-back", "client1", tcp("10.96.52.2", 80), answered("web2a"))),
    step("own-node-back",
         service("nodal", "10.96.52.2", [HTTP],
                 [on_node("web1a", "zone-a", "node1"), on_node("web2a", "zone-a", "node2")],
                 trafficDistribution="PreferSameNode"),
         row("node1", "client1", tcp("10.96.52.2", 80), answered("web1a"))))

add("dual-stack", [53],
    step("static",
         [*service("only4", "10.96.53.1", [node_port(30053), node_port(30053, "UDP", "dns")], ["web1a", "web2a"],
                   type="NodePort"),
          *service("only6", "fd00:10:96::5302", [node_port(30054), node_port(30054, "UDP", "dns")], ["web1a", "web2a"],
                   type="NodePort"),
          *service("four-six", ["10.96.53.3", "fd00:10:96::5303"], [node_port(30055)], ["web1a", "web2a"],
                   type="NodePort"),
          *service("six-four", ["fd00:10:96::5304", "10.96.53.4"], [node_port(30056)], ["web1a", "web2a"],
                   type="NodePort"),
          *service("empty6", ["10.96.53.5", "fd00:10:96::5305"], [HTTP]),
          Slice("empty6", ("web1a",), (HTTP,))],
         row("only4", "client1", tcp("10.96.53.1", 80), answered("web1a", "web2a")),
         row("only4-node-port", "ext1", tcp("node1", 30053), BY_NODE1),
         row("only4-node-port-by-ipv6", "ext1", v6(tcp("node1", 30053)), REFUSED),
         row("only6", "client1", tcp("fd00:10:96::5302", 80), answered("web1a", "web2a")),
         row("only6-udp", "client1", udp("fd00:10:96::5302", 80), answered("web1a", "web2a")),
         row("only6-node-port", "ext1", v6(tcp("node1", 30054)), BY_NODE1),
         row("only6-node-port-udp", "ext1", v6(udp("node1", 30054)), BY_NODE1),
         row("only6-node-port-by-ipv4", "ext1", tcp("node1", 30054), REFUSED),
         row("four-six-by-ipv4", "client2", tcp("10.96.53.3", 80), answered("web1a", "web2a")),
         row("four-six-by-ipv6", "client2", tcp("fd00:10:96::5303", 80), answered("web1a", "web2a")),
         row("four-six-node-port-by-ipv4", "ext1", tcp("node2", 30055), BY_NODE2),
         row("four-six-node-port-by-ipv6", "ext1", v6(tcp("node2", 30055)), BY_NODE2),
         row("six-four-by-ipv4", "client1", tcp("10.96.53.4", 80), answered("web1a", "web2a")),
         row("six-four-by-ipv6", "client1", tcp("fd00:10:96::5304", 80), answered("web1a", "web2a")),
         row("six-four-node-port-from-a-pod", "client1", v6(tcp("node2", 30056)), BY_NODE2),
         row("families-are-independent-ipv4", "client1", tcp("10.96.53.5", 80), answered("web1a")),
         row("families-are-independent-ipv6", "client1", tcp("fd00:10:96::5305", 80), REFUSED)),
    step("second-family-removed",
         service("four-six", "10.96.53.3", [node_port(30055)], ["web1a", "web2a"], type="NodePort"),
         row("by-ipv4", "client2", tcp("10.96.53.3", 80), answered("web1a", "web2a")),
         row("by-ipv6", "client2", tcp("fd00:10:96::5303", 80), CLOSED)))

ALT = Port(81, 8081, "TCP", "alt")

add("many-slices", [54],
    step("static",
         [*service("ips", "10.96.54.1", [HTTP]),
          Slice("ips", ("web1a", "web1b"), (HTTP,), suffix="a"),
          Slice("ips", ("web2a",), (HTTP,), suffix="b"),
          Slice("ips", ("web2a", "web2b"), (HTTP,), suffix="c"),
          *service("ports", "10.96.54.2", [HTTP, ALT]),
          Slice("ports", ("web1a",), (HTTP,), suffix="a"),
          Slice("ports", ("web2a",), (ALT,), suffix="b"),
          Slice("ports", ("web1b",), (HTTP, ALT), suffix="c")],
         row("union", "client1", tcp("10.96.54.1", 80), answered("web1a", "web1b", "web2a", "web2b")),
         row("first-port", "client1", tcp("10.96.54.2", 80), answered("web1a:8080", "web1b:8080")),
         row("second-port", "client1", tcp("10.96.54.2", 81), answered("web2a:8081", "web1b:8081"))),
    step("a-slice-deleted",
         [*service("ips", "10.96.54.1", [HTTP]),
          Slice("ips", ("web2a",), (HTTP,), suffix="b"),
          Slice("ips", ("web2a", "web2b"), (HTTP,), suffix="c")],
         row("union", "client1", tcp("10.96.54.1", 80), answered("web2a", "web2b"))),
    step("its-twin-keeps-it",
         [*service("ips", "10.96.54.1", [HTTP]), Slice("ips", ("web2a", "web2b"), (HTTP,), suffix="c")],
         row("union", "client1", tcp("10.96.54.1", 80), answered("web2a", "web2b"))))

LOCALHOST = [
    *service("lo", "10.96.55.1", [node_port(30057), node_port(30057, "UDP", "dns")], ["web1a", "web2a"], type="NodePort"),
    *service("lo-sticky", "10.96.55.2", [node_port(30058)], ["web1a", "web1b", "web2a"], type="NodePort", **affinity()),
    *service("lo-local", "10.96.55.3", [node_port(30059)], ["web2a"], type="NodePort", **local("external")),
    *service("lo-none", "10.96.55.4", [node_port(30064), node_port(30064, "UDP", "dns")], [], type="NodePort"),
]
BY_LOCALHOST = [
    row("tcp", "node1", tcp("127.0.0.1", 30057), BY_NODE1, **NO_LOOPBACK),
    row("udp", "node1", udp("127.0.0.1", 30057), BY_NODE1, **NO_LOOPBACK),
    row("on-the-other-node", "node2", tcp("127.0.0.1", 30057), BY_NODE2, **NO_LOOPBACK),
    row("affinity", "node1", tcp("127.0.0.1", 30058), sticky("web1a", "web1b", "web2a", source="node1"), **NO_LOOPBACK),
    row("policy-local", "node1", tcp("127.0.0.1", 30059), answered("web2a", source="node1"), **NO_LOOPBACK),
    row("no-endpoints", "node1", tcp("127.0.0.1", 30064), REFUSED),
    row("no-endpoints-udp", "node1", udp("127.0.0.1", 30064), REFUSED),
    row("another-port", "node1", tcp("127.0.0.1", 30060), REFUSED),
]

add("localhost-node-ports", [55], step("static", LOCALHOST, *BY_LOCALHOST), needs="localhost-node-ports")

UNHEEDED = in_userspace(BY_NODE1, "nodePortAddresses is ignored")

add("localhost-node-ports-listed", [55],
    step("static", LOCALHOST, *BY_LOCALHOST,
         row("from-outside", "ext1", tcp("node1", 30057), BY_NODE1),
         row("from-outside-udp", "ext1", udp("node1", 30057), BY_NODE1),
         row("another-address-of-the-node", "client1", tcp("10.244.1.1", 30057), REFUSED, **UNHEEDED)),
    config={"nodePortAddresses": ["127.0.0.0/8", "172.31.0.0/24", "fd00:31::/64"]})

DIRECT = {"direct": True}

add("neighbours", [58],
    step("static", service("np", "10.96.58.1", [node_port(9058, "UDP", "dns")], ["web2a"], type="NodePort"),
         row("pod-to-pod", "client1", tcp("web1a", 8080), answered("web1a"), **DIRECT),
         row("pod-to-pod-across-nodes", "client1", tcp("web2a", 8080), answered("web2a"), **DIRECT),
         row("pod-to-pod-across-nodes-udp", "client1", udp("web2a", 8080), answered("web2a"), **DIRECT),
         row("pod-to-pod-ipv6", "client1", v6(tcp("web2a", 8080)), answered("web2a"), **DIRECT),
         row("pod-to-pod-large", "client1", udp("web2a", 8080), answered("web2a"), payload=30000, **DIRECT),
         row("pod-to-node", "client1", tcp("node2", 7080), answered("node2"), **DIRECT),
         row("node-to-pod", "node1", tcp("web2a", 8080), answered("web2a"), **DIRECT),
         row("pod-to-outside", "client1", tcp("ext1", 8080), answered("ext1"), **DIRECT),
         row("outside-to-pod", "ext1", tcp("web2a", 8080), answered("web2a"), **DIRECT),
         row("host-port", "ext1", tcp("node1", 9058), answered("web1a"), **DIRECT),
         row("host-port-number-in-another-protocol", "ext1", udp("node1", 9058), answered("web2a", source="node1")),
         row("host-port-on-its-node-only", "ext1", tcp("node2", 9058), REFUSED)),
    step("after-a-change", service("np", "10.96.58.1", [node_port(9058, "UDP", "dns"), node_port(30061)], ["web2a"],
                                   type="NodePort"),
         row("host-port", "ext1", tcp("node1", 9058), answered("web1a"), **DIRECT),
         row("node-port", "ext1", tcp("node1", 30061), answered("web2a", source="node1"))),
    step("after-a-restart", service("np", "10.96.58.1", [node_port(9058, "UDP", "dns")], ["web2a"], type="NodePort"),
         row("host-port", "ext1", tcp("node1", 9058), answered("web1a"), **DIRECT), do="restart"),
    host_port=("node1", "tcp", 9058, "web1a", 8080))

add("node-port-addresses", [10, 46],
    step("static", service("np", ["10.96.60.1", "fd00:10:96::6001"], [node_port(30062)], ["web1a", "web2a"],
                           type="NodePort"),
         row("allowed", "ext1", tcp("node1", 30062), BY_NODE1),
         row("allowed-on-the-other-node", "ext1", tcp("node2", 30062), BY_NODE2),
         row("allowed-ipv6", "ext1", v6(tcp("node1", 30062)), BY_NODE1),
         row("from-the-node", "node1", tcp("node1", 30062), BY_NODE1),
         row("another-address-of-the-node", "client1", tcp("10.244.1.1", 30062), REFUSED, **UNHEEDED),
         row("another-address-of-the-node-ipv6", "client1", tcp("fd00:244:1::1", 30062), REFUSED, **UNHEEDED),
         row("localhost", "node1", tcp("127.0.0.1", 30062), REFUSED, **UNHEEDED),
         row("cluster-ip", "client1", tcp("10.96.60.1", 80), answered("web1a", "web2a"))),
    config={"nodePortAddresses": ["172.31.0.0/24", "fd00:31::/64"]})

add("masquerade-all", [4],
    step("static", service("masq", ["10.96.61.1", "fd00:10:96::6101"], [HTTP, DNS], ["web1a", "web2a"]),
         row("pod", "client1", tcp("10.96.61.1", 80), BY_NODE1),
         row("pod-udp", "client2", udp("10.96.61.1", 80), BY_NODE2),
         row("pod-ipv6", "client1", tcp("fd00:10:96::6101", 80), BY_NODE1)),
    config={"masqueradeAll": True})

def service_cidr(name, *cidrs):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}


UNALLOCATED = in_nftables(DROPPED, "an address for Services that none has is dropped, not passed on")

add("addresses-of-no-service", [],
    step("static",
         [service_cidr("more", "198.51.100.128/25", "fd00:cb00:71:0:8000::/65"), *service("web", "10.96.62.1", [HTTP], ["web1a"])],
         row("pod", "client1", tcp("198.51.100.200", 80), CLOSED, **UNALLOCATED),
         row("pod-udp", "client2", udp("198.51.100.200", 80), CLOSED, **UNALLOCATED),
         row("pod-ipv6", "client1", tcp("fd00:cb00:71:0:8000::1", 80), CLOSED, **UNALLOCATED),
         row("node", "node1", tcp("198.51.100.200", 80), CLOSED, **UNALLOCATED),
         row("outside", "ext1", tcp("198.51.100.200", 80), CLOSED, **UNALLOCATED),
         row("beside", "client1", tcp("198.51.100.100", 80), CLOSED),
         row("a-service", "client1", tcp("10.96.62.1", 80), answered("web1a"))))

# The cases of test/e2e/network that must have rows. Those left out need an API server, a health-check port, a slow
# roll-out or a sysctl.
REQUIRED = {*range(1, 9), *range(10, 17), *range(18, 29), *range(30, 37), 38, 40, 41, 43, *range(45, 49), *range(51, 56), 58}
