"""The words the table is written in."""

import dataclasses

from lab import objects

# Fates of a packet, besides being answered.
REFUSED = "refused"  # somebody says no at once: a reset, or ICMP "port unreachable"
DROPPED = "timeout"  # silence
CLOSED = "closed"  # anything but an answer; the modes differ in how they ignore a packet


@dataclasses.dataclass(frozen=True)
class Answered:
    """Every request is answered by one of `pods`, and each of them answers sooner or later.

    A pod is "web1a", or "web1a:8081" when its port matters; a node's name means its host-network server. `source` is
    whose address the pod sees: "client", the name of the node that stood in for it, "any" of them, or "relay": the
    node to which the client's packets came.
    """

    pods: tuple[str, ...]
    source: str = "client"
    sticky: bool = False  # one of the pods gives all the answers
    moves_after: float = 0.0  # seconds of silence after which a sticky client may get another pod


def answered(*pods, source="client"):
    return Answered(pods, source)


def sticky(*pods, source="client", moves_after=0.0):
    return Answered(pods, source, sticky=True, moves_after=moves_after)


@dataclasses.dataclass(frozen=True)
class Destination:
    proto: str
    host: str  # an address, or a member of the cluster
    port: int
    family: int


def tcp(host, port):
    return Destination("tcp", host, port, 6 if ":" in host else 4)


def udp(host, port):
    return Destination("udp", host, port, 6 if ":" in host else 4)


def v6(destination):
    """The same member of the cluster by its IPv6 address."""
    return dataclasses.replace(destination, family=6)


@dataclasses.dataclass(frozen=True)
class Differs:
    """Another fate in one of the modes, and why that is meant to be."""

    mode: str
    expect: Answered | str
    why: str


def in_nftables(expect, why):
    return {"differs": (Differs("nftables", expect, why),)}


def in_ipvs(expect, why):
    return {"differs": (Differs("ipvs", expect, why),)}


def in_userspace(expect, why):
    return {"differs": (Differs("userspace", expect, why),)}


def differing(*modes):
    """Several of the above, for one row."""
    return {"differs": tuple(one for mode in modes for one in mode["differs"])}


# In these modes the proxy itself talks to the pod, and the pod sees nobody else.
RELAYING = {"userspace"}


@dataclasses.dataclass(frozen=True)
class Row:
    """A packet from `client` to `to` ends up as `expect` says."""

    name: str
    client: str
    to: Destination
    expect: Answered | str
    e2e: tuple[int, ...] = ()  # more cases of the Kubernetes project's suite than its scenario names
    payload: int = 0  # bytes
    source_port: int = 0  # keep this local port, as a long-lived UDP client does
    seconds: float = 10.0  # how long the expected fate may take to come true
    needs: str = ""  # a feature of the mode; the row is skipped where it is missing
    direct: bool = False  # no Service is asked for: the packet passes the proxy by
    differs: tuple[Differs, ...] = ()

    def in_mode(self, mode):
        """The row as it holds in a mode."""
        expect = next((one.expect for one in self.differs if one.mode == mode), self.expect)
        if mode in RELAYING and not self.direct and isinstance(expect, Answered):
            expect = dataclasses.replace(expect, source="relay")
        return dataclasses.replace(self, expect=expect)


def row(name, client, to, expect, **more):
    return Row(name, client, to, expect, **more)


@dataclasses.dataclass(frozen=True)
class Step:
    """A state of the cluster, reached from the step before it, and the rows that hold there.

    `objects` is everything that exists in this step. `do` is something that happens to the nodes first: one of
    "stop", "start", "restart", "kill-and-start", "flush".
    """

    name: str
    objects: list
    rows: list[Row]
    do: str = ""
    gap: str = ""  # what the proxy still lacks for these rows; they must fail until then


def step(name, made, *rows, **more):
    return Step(name, made, list(rows), **more)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """Steps in their order. `e2e` are the cases of test/e2e/network that its rows stand for."""

    name: str
    e2e: tuple[int, ...]
    steps: list[Step]
    config: dict = dataclasses.field(default_factory=dict)  # laid over the daemon's configuration
    host_port: tuple = ()  # (node, proto, port, pod, pod port): a neighbour's rule that is there the whole time
    needs: str = ""

    @property
    def alone(self):
        """Whether it does something to the nodes that other scenarios would notice."""
        return bool(self.config or self.host_port or any(step.do for step in self.steps))

    def objects(self, index):
        """What exists in a step, with names that no other scenario has. The last step lasts."""
        return [_named_after(self, one) for one in self.steps[min(index, len(self.steps) - 1)].objects]


def scenario(name, e2e, *steps, **more):
    return Scenario(name, tuple(e2e), list(steps), **more)


def side_by_side(scenarios):
    """Lists of scenarios that share a cluster: all take their first step, then all their second, and so on. Every step that
    is not taken alone saves the time until the nodes have it."""
    groups = [[one for one in scenarios if not one.alone], *([one] for one in scenarios if one.alone)]
    return [group for group in groups if group]


def stages(group):
    """The numbers of its steps, each with the scenarios that have one."""
    for index in range(max(len(one.steps) for one in group)):
        yield index, [one for one in group if index < len(one.steps)]


# Objects


@dataclasses.dataclass(frozen=True)
class Port:
    number: int
    target: int = 8080
    protocol: str = "TCP"
    name: str = ""
    node_port: int | None = None


@dataclasses.dataclass(frozen=True)
class Pod:
    """An endpoint with something to say beyond being ready."""

    name: str
    conditions: dict


def pod(name, **conditions):
    return Pod(name, conditions)


def unready(name):
    return Pod(name, {"ready": False, "serving": False})


def terminating(name):
    """Shutting down but still answering."""
    return Pod(name, {"ready": False, "serving": True, "terminating": True})


@dataclasses.dataclass(frozen=True)
class Slice:
    """An EndpointSlice whose addresses are filled in when the cluster is known."""

    service: str
    pods: tuple
    ports: tuple[Port, ...]
    family: int = 4
    suffix: str = "a"
    labels: tuple = ()

    def resolve(self, cluster):
        endpoints = []
        for one in self.pods:
            one = one if isinstance(one, Pod) else Pod(one, {})
            endpoints.append(cluster.endpoint(one.name, self.family, **one.conditions))
        ports = [objects.port(p.target, p.protocol, p.name) for p in self.ports]
        made = objects.endpoint_slice(self.service, endpoints, ports, self.suffix, labels=dict(self.labels))
        return {**made, "addressType": f"IPv{self.family}"}


def service(name, vips, ports, pods=None, labels=None, slice_labels=(), **spec):
    """A Service and, unless pods is None, one slice per family that holds them."""
    vips = [vips] if isinstance(vips, str) else list(vips)
    made = [objects.service(
        name, vips, [objects.port(p.number, p.protocol, p.name, p.node_port, p.target) for p in ports],
        labels=labels, **spec)]
    if pods is None:
        return made
    families = [6 if ":" in vip else 4 for vip in vips] or [4]
    return made + [Slice(name, tuple(pods), tuple(ports), family, f"v{family}", tuple(slice_labels))
                   for family in families]


def _named_after(owner, made):
    if isinstance(made, Slice):
        return dataclasses.replace(made, service=f"{owner.name}-{made.service}")
    if made["kind"] != "Service":
        return made
    return {**made, "metadata": {**made["metadata"], "name": f"{owner.name}-{made['metadata']['name']}"}}


def resolve(made, cluster):
    return [one.resolve(cluster) if isinstance(one, Slice) else one for one in made]
