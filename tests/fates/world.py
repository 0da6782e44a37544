"""What the objects of a cluster say about packets: the addresses there are to send to, and who may send to them."""

import dataclasses
import ipaddress
import itertools

import node

OTHER_PROTOCOL = {"tcp": "udp", "udp": "tcp", "sctp": "tcp"}
LOOPBACK = {4: "127.0.0.1", 6: "::1"}
UNUSED_PORT = 9
UNUSED_NODE_PORT = 30999
SOURCES = 110  # addresses that a client of many has
_FIRST_SOURCE = 3  # counted from the end of a range, where nothing else is; the very last may be a broadcast address


@dataclasses.dataclass(frozen=True)
class Client:
    name: str
    place: str
    sources: tuple[str, ...]
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None  # where there are more of its kind

    def others(self, first, count):
        """As many others of its kind. Those whose numbers do not overlap are not the same."""
        numbers = range(_FIRST_SOURCE + SOURCES + first, _FIRST_SOURCE + SOURCES + first + count)
        return dataclasses.replace(self, sources=tuple(str(self.network[-number]) for number in numbers))


@dataclasses.dataclass(frozen=True)
class Target:
    """Something to send to. `endpoints` is how many there may be behind it, `service` the port of a Service it belongs to."""

    name: str
    proto: str
    address: str
    port: int
    endpoints: int = 1
    sticky: bool = False
    service: str = ""
    guarded: bool = False  # by source ranges


@dataclasses.dataclass(frozen=True)
class ServicePort:
    """One port of a Service in one family, with the addresses of all its endpoints, whatever their state."""

    name: str
    service: dict
    port: dict
    family: int
    endpoints: tuple[str, ...]

    @property
    def sticky(self):
        return self.service["spec"].get("sessionAffinity") == "ClientIP"

    def target(self, kind, address, port, **more):
        return Target(f"{kind} of {self.name}", self.port.get("protocol", "TCP").lower(), address, port,
                      max(1, len(self.endpoints)), self.sticky, self.name, **more)


class World:
    """The objects, as a list of dictionaries, and the ranges of pod addresses from the configuration."""

    def __init__(self, objects, cluster_cidrs):
        self._objects = objects
        self._node = next(one for one in objects if one["kind"] == "Node")
        self._cluster = [ipaddress.ip_network(cidr) for cidr in cluster_cidrs]
        self.pod_cidrs = [ipaddress.ip_network(cidr) for cidr in self._node["spec"]["podCIDRs"]]
        if not any(cidr.version == 6 for cidr in self.pod_cidrs):
            self.pod_cidrs.append(ipaddress.ip_network("fd00:244:1::/64"))
        self.gateways = [str(cidr[-2]) for cidr in self.pod_cidrs]

    def make_node(self, pod_device="veth0"):
        """A node for these objects, without any rules."""
        local = [one for one in self._endpoint_addresses() if self._is_local(one)]
        return node.Node([*map(str, self.pod_cidrs), *local], self.gateways, pod_device)

    # Who sends

    def clients(self, family):
        outside = ipaddress.ip_network("11.0.0.0/8" if family == 4 else "2001:db8:1::/64")
        stray = ipaddress.ip_network(node.STRAY_PODS[family == 6])
        made = [
            self._client("a pod", node.PODS, self._pod_cidr(family)),
            self._client("a pod outside of the cluster's range", node.PODS, stray),
            self._client("an outsider", node.ETH0, outside),
            Client("a neighbour of the node", node.ETH0, ("172.31.0.100",) if family == 4 else ("fd00:31::100",)),
            Client("the node", node.NODE, (node.IPV4 if family == 4 else node.IPV6,)),
            # From an address that it does not send from by itself, masquerading shows.
            Client("the node by another address", node.NODE,
                   (node.OTHER_IPV4,) if family == 4 else (self._gateway(family),)),
        ]
        for cluster in self._cluster:
            if cluster.version == family:
                made.append(self._client("a pod of another node", node.ETH0, cluster, not_in=self._pod_cidr(family)))
        return made + self._clients_in_ranges(family)

    def endpoint_clients(self, port, at_most=3):
        """Endpoints of a Service, which may meet themselves."""
        return [Client(f"the endpoint {address}", node.PODS if self._is_local(address) else node.ETH0, (address,))
                for address in port.endpoints[:at_most]]

    def owner_of(self, target):
        """A process of the node that sends from the address of the load balancer itself."""
        return Client("the node by the load balancer's address", node.NODE, (target.address,))

    def _clients_in_ranges(self, family):
        ranges = {text.strip() for one in self._services() for text in one["spec"].get("loadBalancerSourceRanges") or []}
        networks = sorted((one for one in map(ipaddress.ip_network, ranges) if one.version == family), key=str)
        return [Client(f"an outsider in {one}", node.ETH0, (str(one[1] if one.num_addresses > 1 else one[0]),))
                for one in networks if one.prefixlen and not one.overlaps(self._pod_cidr(family))]

    def _client(self, name, place, network, not_in=None):
        taken = {*self._endpoint_addresses(), *self.gateways, node.IPV4, node.IPV6}
        hosts = (network[-number] for number in range(_FIRST_SOURCE, network.num_addresses))
        free = (str(one) for one in hosts if str(one) not in taken and not (not_in and one in not_in))
        return Client(name, place, tuple(itertools.islice(free, SOURCES)), network)

    # What to send to

    def service_ports(self, family):
        found = []
        for service in self._services():
            if service["spec"].get("type") == "ExternalName":
                continue
            for port in service["spec"].get("ports", []):
                meta = service["metadata"]
                name = f"{meta['namespace']}/{meta['name']}:{port.get('name', '')}"
                found.append(ServicePort(name, service, port, family, self._endpoints_of(service, port, family)))
        return found

    def targets(self, port):
        """Every front end of a port of a Service."""
        spec, family = port.service["spec"], port.family
        made = [port.target("cluster IP", one, port.port["port"]) for one in self._cluster_ips(port.service, family)]
        made += [port.target("external IP", one, port.port["port"])
                 for one in spec.get("externalIPs") or [] if _family(one) == family]
        made += self.load_balancers(port)
        if port.port.get("nodePort"):
            made += [port.target("node port", one, port.port["nodePort"]) for one in self._node_addresses(family)]
        return made

    def load_balancers(self, port):
        ingress = port.service.get("status", {}).get("loadBalancer", {}).get("ingress") or []
        guarded = bool(port.service["spec"].get("loadBalancerSourceRanges"))
        return [port.target("load balancer", one["ip"], port.port["port"], guarded=guarded)
                for one in ingress if one.get("ip") and _family(one["ip"]) == port.family]

    def wrong_targets(self, port):
        """Ports and protocols beside those of a Service, on its own addresses."""
        made = []
        for right in self.targets(port):
            for proto, number in ((right.proto, UNUSED_PORT), (OTHER_PROTOCOL[right.proto], right.port)):
                made.append(Target(f"beside the {right.name}", proto, right.address, number))
        return made

    def free_addresses(self, family):
        """Addresses that a Service could have but none has."""
        taken = {address for one in self._services() for address in one["spec"].get("clusterIPs") or []}
        made = []
        for network in self._service_cidrs(family):
            free = next(str(network[number]) for number in range(77, 300) if str(network[number]) not in taken)
            made += [Target("a free address", proto, address, 80)
                     for proto in ("tcp", "udp") for address in (free, str(network[-2]))]
        return made + [Target("a free node port", "tcp", one, UNUSED_NODE_PORT) for one in self._node_addresses(family)]

    # Looking things up

    def _services(self):
        return [one for one in self._objects if one["kind"] == "Service"]

    def _slices(self):
        return [one for one in self._objects if one["kind"] == "EndpointSlice"]

    def _endpoint_addresses(self):
        return {endpoint["addresses"][0] for one in self._slices() for endpoint in one.get("endpoints") or []}

    def _endpoints_of(self, service, port, family):
        found = {}
        for one in self._slices():
            meta = one["metadata"]
            if (meta["namespace"], meta.get("labels", {}).get("kubernetes.io/service-name")) != (
                    service["metadata"]["namespace"], service["metadata"]["name"]):
                continue
            if not any(p.get("name", "") == port.get("name", "") for p in one.get("ports") or []):
                continue
            for endpoint in one.get("endpoints") or []:
                if _family(endpoint["addresses"][0]) == family:
                    found[endpoint["addresses"][0]] = True
        return tuple(found)

    def _is_local(self, address):
        if any(ipaddress.ip_address(address) in cidr for cidr in self.pod_cidrs):
            return True
        return any(endpoint.get("nodeName") == self._node["metadata"]["name"]
                   for one in self._slices() for endpoint in one.get("endpoints") or [] if endpoint["addresses"][0] == address)

    def _cluster_ips(self, service, family):
        return [one for one in service["spec"].get("clusterIPs") or [] if one != "None" and _family(one) == family]

    def _node_addresses(self, family):
        own = [node.IPV4, node.OTHER_IPV4] if family == 4 else [node.IPV6]
        return [*own, self._gateway(family), LOOPBACK[family]]

    def _service_cidrs(self, family):
        texts = [cidr for one in self._objects if one["kind"] == "ServiceCIDR" for cidr in one["spec"]["cidrs"]]
        return [network for network in map(ipaddress.ip_network, texts) if network.version == family]

    def _pod_cidr(self, family):
        return next(cidr for cidr in self.pod_cidrs if cidr.version == family)

    def _gateway(self, family):
        return next(one for one in self.gateways if _family(one) == family)


def _family(address):
    return 6 if ":" in address else 4
