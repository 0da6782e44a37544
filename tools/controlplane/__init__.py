"""A real Kubernetes control plane for tests: etcd and kube-apiserver, in a network namespace of their own.

    from controlplane import ControlPlane, built

    with ControlPlane(built()) as plane, lab.Cluster() as cluster:
        plane.attach(cluster.fabric)                      # nodes of this cluster reach it at 172.31.0.1:13143
        plane.admin.put(*cluster.node_objects())          # quick: one HTTPS request an object
        plane.kubectl("apply", "-f", "service.yaml")      # as a person does it
        config = {"clientConnection": {"kubeconfig": str(plane.kubeconfig("kube-proxy"))}}

`python3 -B -m controlplane --help` builds it and runs it by hand; README.md says more.
"""

from controlplane.client import ApiError, Client
from controlplane.credentials import Credentials
from controlplane.plane import ADDRESS, PORT, ControlPlane, missing_capabilities
from controlplane.programs import Binaries, Unavailable, build, built
from controlplane.relay import Relay
from controlplane.source import Objects, Source

__all__ = [
    "ADDRESS", "PORT", "ApiError", "Binaries", "Client", "ControlPlane", "Credentials", "Objects", "Relay",
    "Source", "Unavailable", "build", "built", "missing_capabilities",
]
