"""The laboratory: nodes, pods on them, and clients outside, each a network namespace.

                        fabric (a bridge, 172.31.0.1)
          ┌──────────────┬─────────────┬──────────────┐
        node1          node2         ext1           ext2
     172.31.0.11    172.31.0.12   172.31.0.100   172.31.0.101
      │       │       │      │    sends to Services   sends to Services
   client1  web1a  client2  web2a   by node1             by node2
     .2       .3     .2       .3
    10.244.1.0/24   10.244.2.0/24

Every address has an IPv6 twin (fd00:31::/64, fd00:244:1::/64, ...). Pods hang on their node by a veth pair and a host
route, as with the CNI plugin ptp. An address that no rule takes reaches the fabric, which answers "unreachable".
"""

import contextlib
import dataclasses
import ipaddress
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from lab import client, netns, objects
from lab.wait import wait_for

CLUSTER_CIDR = "10.244.0.0/16,fd00:244::/32"
SERVICE_CIDRS = ("10.96.0.0/12", "fd00:10:96::/108")
# Addresses of the outside world that belong to nobody: load balancers and external IPs live here.
OUTSIDE_CIDRS = ("203.0.113.0/24", "198.51.100.0/24", "fd00:cb00:71::/64")

DEFAULT_NODES = {"node1": "zone-a", "node2": "zone-b"}
DEFAULT_PODS = {
    "client1": "node1", "web1a": "node1", "web1b": "node1",
    "client2": "node2", "web2a": "node2", "web2b": "node2",
}
DEFAULT_OUTSIDERS = {"ext1": "node1", "ext2": "node2"}

# Links must be usable at once and errors must arrive at full rate: a test asks for many refusals per second.
_SYSCTLS = {
    "ipv4/conf/all/rp_filter": 0, "ipv4/conf/default/rp_filter": 0,
    "ipv4/conf/all/send_redirects": 0, "ipv4/conf/default/send_redirects": 0,
    "ipv4/icmp_ratelimit": 0, "ipv6/icmp/ratelimit": 0,
    "ipv6/conf/all/accept_dad": 0, "ipv6/conf/default/accept_dad": 0,
}
_FORWARDING = {"ipv4/ip_forward": 1, "ipv6/conf/all/forwarding": 1}


@dataclasses.dataclass(frozen=True)
class Member:
    """A namespace of the laboratory. `node` is the node a pod runs on, or by which an outsider reaches Services."""

    name: str
    kind: str  # "node", "pod" or "outsider"
    netns: netns.Netns
    node: str
    ipv4: str
    ipv6: str
    zone: str = ""


def missing_capabilities():
    """What this machine lacks to run a laboratory, as a list of short sentences; empty when all is there."""
    lacks = [f"the program {tool}" for tool in ("ip", "iptables") if not shutil.which(tool)]
    if os.geteuid() != 0:
        return [*lacks, "root"]
    if lacks:
        return lacks
    probe = None
    try:
        probe = netns.Netns(f"kp-probe-{os.getpid()}")
        for what in ("bridge0 type bridge", "va type veth peer name vb"):
            try:
                probe.ip(f"link add {what}")
            except RuntimeError as error:
                lacks.append(f"links of this kind: {what} ({error})")
    except (RuntimeError, OSError) as error:
        lacks.append(f"network namespaces ({error})")
    finally:
        if probe:
            probe.close()
    return lacks


def sweep(prefix):
    """Removes what runs of the same prefix left behind when they were killed."""
    def left_in(folder):
        for path in sorted(pathlib.Path(folder).glob(f"{prefix}-*-*")):
            found = re.match(re.escape(prefix) + r"-(\d+)-", path.name)
            if found and not os.path.exists(f"/proc/{found[1]}"):
                yield path

    for path in left_in("/run/netns"):
        with contextlib.suppress(RuntimeError):  # another run sweeps at the same time
            netns.ip("netns", "del", path.name)
    for path in left_in(tempfile.gettempdir()):
        shutil.rmtree(path, ignore_errors=True)


class Cluster:
    """Builds everything in the constructor; close() (or leaving the with block) removes it.

    `nodes` maps names to zones, `pods` names to nodes, `outsiders` names to the node that is their way to Services.
    Namespaces are called PREFIX-PID-NAME. `state` is a temporary folder for logs, configurations and manifests.
    """

    def __init__(self, prefix="kp", nodes=None, pods=None, outsiders=None, dual_stack=True):
        sweep(prefix)
        self.dual_stack = dual_stack
        self.members = {}
        self._prefix = f"{prefix}-{os.getpid()}"
        self._spaces = []
        self._servers = {}
        self._sources = 0
        self._daemons = []
        self.state = pathlib.Path(tempfile.mkdtemp(prefix=f"{self._prefix}-"))
        try:
            self._build(nodes or DEFAULT_NODES, DEFAULT_PODS if pods is None else pods,
                        DEFAULT_OUTSIDERS if outsiders is None else outsiders)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends every process that was started here and removes every namespace. May be called twice."""
        for daemon in reversed(self._daemons):
            daemon.close()
        for name in list(self._servers):
            self.stop_serving(name)
        while self._spaces:
            with contextlib.suppress(RuntimeError, OSError):
                self._spaces.pop().close()
        shutil.rmtree(self.state, ignore_errors=True)

    # Who is who

    def __getitem__(self, name):
        return self.members[name]

    def nodes(self):
        return [m.name for m in self.members.values() if m.kind == "node"]

    def address(self, name, family=4):
        return self.members[name].ipv4 if family == 4 else self.members[name].ipv6

    def addresses(self, name):
        """Every address a member may send from. A node has the gateway address of its pods as well."""
        member = self.members[name]
        found = {member.ipv4, member.ipv6}
        if member.kind == "node":
            number = self._node_number(name)
            found |= {_pod_address(number, 1, 4), _pod_address(number, 1, 6)}
        return found

    def node_objects(self):
        """The Node objects of all nodes, as the API would show them."""
        return [self._node_object(name) for name in self.nodes()]

    def endpoint(self, name, family=4, **conditions):
        """An endpoint for objects.endpoint_slice(): the pod (or node) `name`, with its node and zone filled in."""
        member = self.members[name]
        node = member.name if member.kind == "node" else member.node
        return objects.endpoint(
            self.address(name, family), node=node, zone=self.members[node].zone, target=name, **conditions)

    # Traffic

    def serve(self, name, tcp=(), udp=(), echo=(), called=None):
        """Starts a server in the namespace of `name`; it answers as `called`, by default the name itself."""
        return self._serve({called or name: name}, tcp, udp, echo)

    def serve_alike(self, names, tcp=(), udp=(), echo=()):
        """Starts one process that serves the same ports in the namespaces of all these names: quicker than one for each."""
        return self._serve(dict(zip(names, names, strict=True)), tcp, udp, echo)

    def _serve(self, members, tcp, udp, echo):
        """`members` maps what a server is called to the member in which it serves."""
        argv = [sys.executable, str(pathlib.Path(__file__).with_name("server.py")), "--tcp", ",".join(map(str, tcp)),
                "--udp", ",".join(map(str, udp)), "--echo", ",".join(map(str, echo))]
        for called, name in members.items():
            argv += ["--name", called, "--netns", self.members[name].netns.name]
        server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._servers[" ".join(members)] = server
        return server

    def wait_serving(self):
        """Waits until every server started so far has opened its ports."""
        for called, server in self._servers.items():
            if not server.stdout:  # known to serve
                continue
            if server.stdout.readline().strip() != b"ready":
                raise RuntimeError(f"the server {called} did not start")
            server.stdout.close()
            server.stdout = None

    def stop_serving(self, called):
        server = self._servers.pop(called)
        server.stdin.close()
        if server.stdout:
            server.stdout.close()
        try:
            server.wait(2)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()

    def request(self, name, proto, address, port, **options):
        """One request from the namespace of `name`; see client.request()."""
        return client.request(self.members[name].netns, proto, address, port, **options)

    def run(self, name, argv, **options):
        """Runs a program inside a member and returns the CompletedProcess. The options are those of subprocess.run."""
        options = {"capture_output": True, "text": True, "check": False, **options}
        return subprocess.run(self.command(name, argv), **options)

    def command(self, name, argv):
        """The command line that runs argv inside a member.

        A node has its own /run, as a machine of its own would: two nodes do not share /run/xtables.lock.
        """
        inside = list(map(str, argv))
        if self.members[name].kind == "node":
            script = 'mount --bind "$0" /run && exec "$@"'
            inside = ["sh", "-c", script, str(self.state / f"run-{name}"), *inside]
        return ["ip", "netns", "exec", self.members[name].netns.name, *inside]

    def adopt(self, daemon):
        """Registers something with a close() that must end before the namespaces go."""
        self._daemons.append(daemon)

    # Building

    def _build(self, nodes, pods, outsiders):
        self.fabric = self._space("fabric", _FORWARDING)
        self.fabric.ip(
            "link set lo up", "link add name fabric type bridge mcast_snooping 0", "link set fabric up",
            *self._both("address add {} dev fabric nodad", "172.31.0.1/24", "fd00:31::1/64"))
        self._zones = nodes
        for number, name in enumerate(nodes, start=1):
            self._add_node(name, number)
        for name, node in pods.items():
            self.add_pod(name, node)
        for number, (name, node) in enumerate(outsiders.items()):
            self._add_outsider(name, node, 100 + number)
        # The bridge passes packets once it has seen the carrier of both ends.
        for name in (*nodes, *outsiders):
            wait_for(lambda name=name: self._link_up(name), f"the link of {name} is up")

    def _space(self, name, sysctls=None):
        space = netns.Netns(f"{self._prefix}-{name}")
        self._spaces.append(space)
        space.sysctl({**_SYSCTLS, **(sysctls or {})})
        if not self.dual_stack:
            space.sysctl({"ipv6/conf/all/disable_ipv6": 1, "ipv6/conf/default/disable_ipv6": 1})
        return space

    def _both(self, command, ipv4, ipv6):
        """The same ip command for both families; only the IPv4 one in a single-stack cluster."""
        commands = [command.format(ipv4).replace(" nodad", "")]
        return [*commands, command.format(ipv6)] if self.dual_stack else commands

    def _on_fabric(self, name, last, space):
        """Plugs a namespace into the fabric as eth0 and returns its two addresses."""
        ipv4, ipv6 = f"172.31.0.{last}", f"fd00:31::{last}"
        self.fabric.ip(
            f"link add name {name} type veth peer name eth0 netns {space.name}",
            f"link set {name} master fabric up")
        space.ip("link set lo up", "link set eth0 up",
                 *self._both("address add {} dev eth0 nodad", f"{ipv4}/24", f"{ipv6}/64"),
                 *self._both("route add default via {}", "172.31.0.1", "fd00:31::1"))
        return ipv4, ipv6

    def _add_node(self, name, number):
        space = self._space(name, _FORWARDING)
        ipv4, ipv6 = self._on_fabric(name, 10 + number, space)
        (self.state / f"run-{name}").mkdir()
        self.members[name] = Member(name, "node", space, name, ipv4, ipv6, self._zones[name])
        others = [self.members[n] for n in self.nodes() if n != name]
        routes = self._pod_routes(self.members[name])
        for other in others:
            other.netns.ip(*routes)
            space.ip(*self._pod_routes(other))
        self.fabric.ip(*routes)

    def _pod_routes(self, node):
        number = self._node_number(node.name)
        return self._both("route add {}", f"10.244.{number}.0/24 via {node.ipv4}",
                          f"fd00:244:{number}::/64 via {node.ipv6}")

    def add_pod(self, name, node):
        """Adds a pod to a running node."""
        number = self._node_number(node)
        last = 2 + sum(m.kind == "pod" and m.node == node for m in self.members.values())
        space = self._space(name)
        ipv4, ipv6 = _pod_address(number, last, 4), _pod_address(number, last, 6)
        gateway4, gateway6 = _pod_address(number, 1, 4), _pod_address(number, 1, 6)
        host = self.members[node].netns
        host.ip(
            f"link add name {name} type veth peer name eth0 netns {space.name}", f"link set {name} up",
            *self._both("address add {} dev " + name + " nodad", f"{gateway4}/32", f"{gateway6}/128"),
            *self._both("route add {} dev " + name, f"{ipv4}/32", f"{ipv6}/128"))
        space.ip(
            "link set lo up", "link set eth0 up",
            *self._both("address add {} dev eth0 nodad", f"{ipv4}/32", f"{ipv6}/128"),
            *self._both("route add {} dev eth0", gateway4, gateway6),
            *self._both("route add default via {}", gateway4, gateway6))
        self.members[name] = Member(name, "pod", space, node, ipv4, ipv6)
        return self.members[name]

    def add_sources(self, name, count):
        """Gives a pod or outsider more IPv4 addresses to send from, and returns them."""
        member = self.members[name]
        self._sources += count
        if self._sources > 100:
            raise ValueError("a laboratory has only a hundred spare addresses")
        prefix = member.ipv4.rpartition(".")[0]
        made = [f"{prefix}.{150 + self._sources - number}" for number in range(count)]
        member.netns.ip(*(f"address add {one}/32 dev eth0" for one in made))
        if member.kind == "pod":
            self.members[member.node].netns.ip(*(f"route add {one}/32 dev {name}" for one in made))
        return made

    def _add_outsider(self, name, node, last):
        space = self._space(name)
        ipv4, ipv6 = self._on_fabric(name, last, space)
        self.members[name] = Member(name, "outsider", space, node, ipv4, ipv6)
        way = self.members[node]
        ways = {cidr: way.ipv6 if ":" in cidr else way.ipv4 for cidr in (*SERVICE_CIDRS, *OUTSIDE_CIDRS)}
        space.ip(*(f"route add {cidr} via {gateway}" for cidr, gateway in ways.items()
                   if self.dual_stack or ":" not in cidr))

    def _link_up(self, name):
        return "LOWER_UP" in netns.ip("-n", self.members[name].netns.name, "link", "show", "eth0")

    def _node_number(self, name):
        return list(self._zones).index(name) + 1

    def _node_object(self, name):
        node, number = self.members[name], self._node_number(name)
        cidrs = [f"10.244.{number}.0/24", f"fd00:244:{number}::/64"]
        families = 2 if self.dual_stack else 1
        return objects.node(name, [node.ipv4, node.ipv6][:families], cidrs[:families], node.zone)


def _pod_address(node_number, last, family):
    if family == 4:
        return f"10.244.{node_number}.{last}"
    return str(ipaddress.IPv6Address(f"fd00:244:{node_number}::{last:x}"))
