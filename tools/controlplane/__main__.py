"""A real Kubernetes control plane, built from source and run in network namespaces.

    PYTHONPATH=tools python3 -B -m controlplane build     build it into the cache; does nothing when it is there
    PYTHONPATH=tools python3 -B -m controlplane up        run it in the foreground, with a node; ^C removes everything
    PYTHONPATH=tools python3 -B -m controlplane where     print the folder of etcd, kube-apiserver, kubectl, kube-proxy
"""

import argparse
import signal
import sys

import lab

from controlplane import ADDRESS, PORT, ControlPlane, Unavailable, build, built

SKIPPED = 77

_UP = """\
A control plane is up, with node1 (a network namespace) attached to it.

  kubectl           ip netns exec {api} {kubectl} --kubeconfig={admin} get services -A
  kubeconfig        {proxy}
                    (user system:kube-proxy; server https://{address}:{port}, as seen from the node)
  token             {token}
                    (ServiceAccount kube-system/kube-proxy, for a day)
  your kube-proxy   ip netns exec {node} build/kube-proxy --kubeconfig={proxy} --hostname-override=node1 \\
                      --conntrack-max-per-core=0 --conntrack-min=0 --conntrack-tcp-timeout-established=0 \\
                      --conntrack-tcp-timeout-close-wait=0 --v=4
  the real one      ip netns exec {node} {real} (the same flags)
  its rules         ip netns exec {node} iptables-save
  logs              {state}/kube-apiserver.log, {state}/etcd.log

^C ends it and removes everything."""


def up():
    """Runs until it is interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    binaries = build()
    with lab.Cluster("kpup", nodes={"node1": "zone-a"}, pods={}, outsiders={}) as cluster, \
            ControlPlane(binaries, "kpupc") as plane:
        plane.attach(cluster.fabric)
        plane.put(*cluster.node_objects())
        plane.make_proxy("kube-system", "kube-proxy")
        token = plane.state / "token"
        token.write_text(plane.token("kube-system", "kube-proxy", 24 * 3600), encoding="ascii")
        print(_UP.format(
            api=plane.netns.name, node=cluster["node1"].netns.name, address=ADDRESS, port=PORT, state=plane.state,
            kubectl=binaries.path("kubectl"), real=binaries.path("kube-proxy"), token=token,
            admin=plane.kubectl_config, proxy=plane.kubeconfig("kube-proxy")), flush=True)
        signal.pause()


def main():
    parser = argparse.ArgumentParser(prog="controlplane", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["build", "up", "where"])
    command = parser.parse_args().command
    try:
        if command == "up":
            up()
        else:
            print((build() if command == "build" else built()).folder)
    except Unavailable as missing:
        print(f"conformance: skipped: {missing}")
        return SKIPPED
    except KeyboardInterrupt:
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
