"""A Service of every kind with pods that answer, and traffic to all its addresses, for tests in which nobody may notice
what happens to the proxy."""

import lab
from lab import objects

SERVING = {"tcp": [8080], "udp": [8080], "echo": [9000]}
CLUSTER_IPS = ("10.96.1.1", "fd00:10:96::1:1")
LOAD_BALANCER_IPS = ("203.0.113.10", "fd00:cb00:71::10")
PORTS = [objects.port(80, "TCP", "web", 30080), objects.port(80, "UDP", "ask", 30080),
         objects.port(9000, "TCP", "echo", 30090), objects.port(9000, "UDP", "echo-udp", 30090)]
POD_PORTS = [objects.port(8080, "TCP", "web"), objects.port(8080, "UDP", "ask"),
             objects.port(9000, "TCP", "echo"), objects.port(9000, "UDP", "echo-udp")]
PODS = ("web1a", "web1b")


def web(**spec):
    return objects.service("web", CLUSTER_IPS, PORTS, "LoadBalancer", load_balancer_ips=LOAD_BALANCER_IPS, **spec)


def web_slices(cluster, endpoints):
    """The slices of both families. `endpoints` maps the names of pods to their conditions."""
    return [objects.endpoint_slice("web", [cluster.endpoint(name, family, **conditions) for name, conditions in endpoints.items()],
                                   POD_PORTS, suffix=f"v{family}") for family in (4, 6)]


def web_flows(cluster):
    """A stream and probes to every address of the Service, by both protocols."""
    node4, node6 = cluster.address("node1"), cluster.address("node1", 6)
    addresses = [("client1", CLUSTER_IPS[0], 80, 9000), ("client1", CLUSTER_IPS[1], 80, 9000),
                 ("node1", CLUSTER_IPS[0], 80, 9000), ("ext1", LOAD_BALANCER_IPS[0], 80, 9000),
                 ("ext1", node4, 30080, 30090), ("ext1", node6, 30080, 30090)]
    return [lab.Flow(kind, client, proto, address, port, pause=0.01, timeout=5.0)
            for client, address, *ports in addresses
            for kind, port in zip(("probes", "stream"), ports, strict=True) for proto in ("tcp", "udp")]


def undisturbed(records):
    """Asserts that every request was answered, and every stream by one pod all along and at its first attempt; what TCP sent
    again because this machine stood still is not counted."""
    told = "\n".join(map(str, records))
    for one in records:
        assert one.answered > 0, told
        assert one.failed == 0, told
        if one.name.startswith("stream"):
            assert one.moves == 0, told
            assert one.retransmitted == 0, told
