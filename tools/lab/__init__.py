"""A small Kubernetes cluster made of network namespaces, on one machine and without containers.

    from lab import Cluster, Daemon, Manifests, Marker, Mode, objects

    with Cluster() as cluster:                        # two nodes, three pods on each, two outside clients
        cluster.serve("web1a", tcp=[8080], udp=[8080])
        cluster.wait_serving()
        manifests = Manifests(cluster.state / "manifests")
        manifests.put(*cluster.node_objects())
        manifests.put(objects.service("web", "10.96.1.1", [objects.port(80)]))
        manifests.put(objects.endpoint_slice("web", [cluster.endpoint("web1a")], [objects.port(8080)]))
        marker = Marker(cluster, manifests, "web1a", 8080)
        with Daemon(cluster, "node1", "build/kube-proxy", manifests, Mode("iptables", "nft")) as daemon:
            marker.wait(["node1"])
            print(cluster.request("client1", "tcp", "10.96.1.1", 80))

Everything lives in namespaces and in one temporary folder, and is removed when the Cluster closes. Nothing outside
of them is changed. LAB_SLACK=3 in the environment makes every deadline three times longer, for slow machines.
"""

from lab import objects
from lab.client import Result, request
from lab.cluster import Cluster, Member, missing_capabilities, sweep
from lab.daemon import Daemon, to_yaml
from lab.manifests import Folder, Manifests
from lab.marker import Marker
from lab.mode import MODES, Mode
from lab.traffic import Flow, Traffic
from lab.wait import SLACK, NotInTime, wait_for

__all__ = [
    "MODES", "SLACK", "Cluster", "Daemon", "Flow", "Folder", "Manifests", "Marker", "Member", "Mode", "NotInTime", "Result",
    "Traffic", "missing_capabilities", "objects", "request", "sweep", "to_yaml", "wait_for",
]
