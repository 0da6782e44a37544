"""Where the soak happens: a node with a proxy, pods, Services of three kinds, and traffic to two of them."""

import os
import pathlib

import lab
from api import ApiObjects
from faults import Faults
from lab import objects

PODS = ("web1a", "web1b", "web1c")
STEADY_IPS, STEADY_BALANCER = ("10.96.1.1", "fd00:10:96::1:1"), "203.0.113.10"
PROBED = 3
FILLERS = 200
MARKER_PORT = 7000
ECHO_PORTS = [objects.port(9000, "TCP", "tcp", 30090), objects.port(9000, "UDP", "udp", 30090)]
WEB_PORTS = [objects.port(80, "TCP", "tcp"), objects.port(80, "UDP", "udp")]
WEB_POD_PORTS = [objects.port(8080, "TCP", "tcp"), objects.port(8080, "UDP", "udp")]


def probed_ip(number):
    return f"10.96.2.{number + 1}"


def probes(number, proto):
    return lab.Flow("probes", "client1", proto, probed_ip(number), 80, pause=0.02, timeout=5.0, own_ports=True)


def filler(number, endpoints):
    """A Service that nobody asks, with endpoints that nobody has."""
    name = f"filler-{number}"
    addresses = [f"10.244.{10 + one}.{number % 250 + 2}" for one in endpoints]
    return [objects.service(name, f"10.97.{number // 250}.{number % 250 + 2}", [objects.port(80)]),
            objects.endpoint_slice(name, [objects.endpoint(one, "node2") for one in addresses], [objects.port(8080)])]


class Daemon(lab.Daemon):
    """A proxy that faults.c can do something to."""

    def __init__(self, cluster, binary, source, mode, faults):
        self._environment = faults.environment
        super().__init__(cluster, "node1", binary, source, mode)

    def launch(self, argv, env=None):
        super().launch(argv, {**env, **self._environment})

    def start_without_log(self):
        """Starts it with a log on a disk that is full."""
        kept, self.log = self.log, pathlib.Path("/dev/full")
        try:
            self.start()
        finally:
            self.log = kept


class Ground:
    """The Services `steady` never change, and long-lived streams go to them; those called `probed` always have some
    healthy pod, and get a new connection all the time; the fillers come and go."""

    def __init__(self, binary, mode, source="manifests"):
        self.mode = mode
        self.binary = os.path.abspath(binary)
        self.cluster = lab.Cluster("kpk", nodes={"node1": "zone-a"}, outsiders={"ext1": "node1"},
                                   pods=dict.fromkeys(("client1", *PODS), "node1"))
        try:
            self._build(source)
        except BaseException:
            self.close()
            raise

    def close(self):
        self.cluster.close()

    def _build(self, source):
        for pod in PODS:
            self.cluster.serve(pod, tcp=[8080], udp=[8080], echo=[9000])
        self.cluster.serve("client1", tcp=[MARKER_PORT])
        self.cluster.wait_serving()
        self.faults = Faults(self.cluster.state)
        folder = self.cluster.state / "manifests"
        self.manifests = ApiObjects(self.cluster, folder) if source == "api" else lab.Manifests(folder)
        self.manifests.put(*self.cluster.node_objects(), *self._steady())
        self.settle()
        self.daemon = Daemon(self.cluster, self.binary, self.manifests, self.mode, self.faults)
        self.marker = lab.Marker(self.cluster, self.manifests, "client1", MARKER_PORT)
        self.wait_taken_up()
        self.traffic = lab.Traffic(self.cluster, self._flows())
        self.traffic.wait_answers()

    def _steady(self):
        made = [objects.service("steady", STEADY_IPS, ECHO_PORTS, "LoadBalancer", load_balancer_ips=[STEADY_BALANCER])]
        return made + [objects.endpoint_slice("steady", [self.cluster.endpoint(pod, family) for pod in PODS],
                                              [objects.port(9000, "TCP", "tcp"), objects.port(9000, "UDP", "udp")], suffix=f"v{family}")
                       for family in (4, 6)]

    def _flows(self):
        ends = [("client1", STEADY_IPS[0], 9000), ("client1", STEADY_IPS[1], 9000), ("ext1", STEADY_BALANCER, 9000),
                ("ext1", self.cluster.address("node1"), 30090)]
        streams = [lab.Flow("stream", *end[:1], proto, *end[1:], pause=0.02, timeout=5.0) for end in ends for proto in ("tcp", "udp")]
        return streams + [probes(number, proto) for number in range(PROBED) for proto in ("tcp", "udp")]

    # The objects

    def settle(self):
        """Makes everything as it was at the start."""
        for number in range(FILLERS):
            self.manifests.put(*filler(number, (1, 2)))
        for number in range(PROBED):
            self.put_probed(number, PODS)

    def put_probed(self, number, pods):
        name = f"probed-{number}"
        self.manifests.put(
            objects.endpoint_slice(name, [self.cluster.endpoint(pod) for pod in pods], WEB_POD_PORTS),
            objects.service(name, probed_ip(number), WEB_PORTS))

    # The proxy

    def wait_taken_up(self):
        """Waits until everything that was written so far is in the kernel."""
        self.marker.wait(["node1"], daemons=[self.daemon])

    def wait_watched(self):
        """Waits until an API server, if there is one, is listened to."""
        if isinstance(self.manifests, ApiObjects):
            lab.wait_for(self.manifests.server.watched, "every resource is watched", 60)

    def differences(self):
        """What `kube-proxy diff` says: nothing when the kernel equals the plan."""
        done = self.cluster.run("node1", [self.binary, "diff", "-f", self.manifests.folder, "--config", self.daemon.config_file],
                                env={**os.environ, "PATH": self.mode.path(self.cluster.state)})
        return "" if done.returncode == 0 else f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
