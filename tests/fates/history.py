"""A random history of a cluster: objects that change step by step. The same seed gives the same history."""

import dataclasses
import random

from lab import objects

SERVICES = 5
LOCAL = range(2, 6)  # which of the endpoints are on the node
REMOTE = range(6, 10)
CONDITIONS = {
    "ready": {},
    "unready": {"ready": False, "serving": False},
    "terminating": {"ready": False, "serving": True, "terminating": True},
    "terminated": {"ready": False, "serving": False, "terminating": True},
}
RANGES = ["11.0.0.0/8", "172.31.0.0/24", "10.128.0.0/10", "198.51.100.7/32", "2001:db8:1::/64", "fd00:244:1::/64"]
FAMILIES = ([4], [6], [4, 6], [6, 4])
PROTOCOLS = {"http": ("TCP", 80), "dns": ("UDP", 53), "assoc": ("SCTP", 99)}


@dataclasses.dataclass
class Service:
    """What is random about one Service and its endpoints."""

    number: int
    type: str = "ClusterIP"
    families: list = dataclasses.field(default_factory=lambda: [4, 6])
    ports: list = dataclasses.field(default_factory=lambda: ["http"])
    endpoints: dict = dataclasses.field(default_factory=dict)  # which -> condition
    target: int = 8080
    external: str = "Cluster"
    internal: str = "Cluster"
    sticky: bool = False
    external_ips: bool = False
    ranges: list = dataclasses.field(default_factory=list)
    node_ports: int = 30000  # the first of them
    slices: int = 1

    @property
    def name(self):
        return f"s{self.number}"

    def objects(self):
        return [self._service(), *(one for family in self.families for one in self._slices(family))]

    def _service(self):
        spec = {"internalTrafficPolicy": self.internal}
        if self.sticky:
            spec |= {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}
        if self.external_ips:
            spec["externalIPs"] = self._addresses("203.0.113.", "2001:db8:113::")
        if self.external_ips or self.type != "ClusterIP":
            spec["externalTrafficPolicy"] = self.external
        if self.type == "LoadBalancer":
            spec |= {"load_balancer_ips": self._addresses("192.0.2.", "2001:db8:2::"), "loadBalancerSourceRanges": self.ranges}
        ports = [objects.port(PROTOCOLS[name][1], PROTOCOLS[name][0], name, self._node_port(name), self.target) for name in self.ports]
        return objects.service(self.name, self._addresses("10.96.1.", "fd00:10:96::a:"), ports, self.type, **spec)

    def _node_port(self, name):
        return None if self.type == "ClusterIP" else self.node_ports + list(PROTOCOLS).index(name)

    def _addresses(self, ipv4, ipv6):
        return [f"{ipv4 if family == 4 else ipv6}{self.number + 10}" for family in self.families]

    def _slices(self, family):
        ports = [objects.port(self.target, PROTOCOLS[name][0], name) for name in self.ports]
        for share in range(self.slices):
            chosen = [which for which in self.endpoints if which % self.slices == share]
            made = objects.endpoint_slice(self.name, [self._endpoint(which, family) for which in chosen], ports, f"v{family}-{share}")
            yield {**made, "addressType": f"IPv{family}"}

    def _endpoint(self, which, family):
        local = which in LOCAL
        address = f"10.{128 if local else 192}.0.{which}" if family == 4 else f"fd00:244:{1 if local else 2}::{which}"
        return objects.endpoint(address, node="node1" if local else "node2", **CONDITIONS[self.endpoints[which]])


class History:
    def __init__(self, seed):
        self._random = random.Random(seed)
        self._services = {}
        self._node_ports = 30000
        while len(self._services) < SERVICES:
            self._create()

    def objects(self):
        return [one for service in self._services.values() for one in service.objects()]

    def step(self):
        """One change; returns (the name of the Service, what happened to it)."""
        if self._random.random() < 0.1:
            return self._create() if len(self._services) < SERVICES else self._delete()
        service = self._random.choice(list(self._services.values()))
        change = self._random.choice([
            self._scale, self._scale, self._scale, self._one_endpoint, self._one_endpoint, self._type, self._policies, self._affinity,
            self._ranges, self._external_ips, self._new_node_ports, self._ports, self._target, self._families, self._cut])
        change(service)
        return service.name, change.__name__.strip("_")

    def _create(self):
        number = next(one for one in range(SERVICES) if one not in self._services)
        made = self._services[number] = Service(number)
        for change in (self._new_node_ports, self._scale, self._type, self._policies, self._affinity, self._external_ips,
                       self._ranges):
            change(made)
        return made.name, "create"

    def _delete(self):
        service = self._services.pop(self._random.choice(list(self._services)))
        return service.name, "delete"

    def _scale(self, service):
        chosen = self._random.sample([*LOCAL, *REMOTE], self._random.choice([0, 1, 1, 2, 3, 4, 5]))
        service.endpoints = {which: self._condition() for which in chosen}

    def _one_endpoint(self, service):
        if service.endpoints:
            service.endpoints[self._random.choice(list(service.endpoints))] = self._condition()

    def _condition(self):
        return self._random.choices(list(CONDITIONS), [6, 1, 2, 1])[0]

    def _type(self, service):
        service.type = self._random.choice(["ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"])

    def _policies(self, service):
        service.external = self._random.choice(["Cluster", "Local"])
        service.internal = self._random.choice(["Cluster", "Cluster", "Local"])

    def _affinity(self, service):
        service.sticky = self._random.random() < 0.4

    def _ranges(self, service):
        service.ranges = self._random.choice([[], self._random.sample(RANGES, self._random.randint(1, 3))])

    def _external_ips(self, service):
        service.external_ips = self._random.random() < 0.5

    def _new_node_ports(self, service):
        self._node_ports += 10
        service.node_ports = self._node_ports

    def _ports(self, service):
        service.ports = self._random.sample(list(PROTOCOLS), self._random.randint(1, 3))

    def _target(self, service):
        service.target = self._random.choice([8080, 8081])

    def _families(self, service):
        service.families = list(self._random.choice(FAMILIES))

    def _cut(self, service):
        service.slices = self._random.choice([1, 2])
