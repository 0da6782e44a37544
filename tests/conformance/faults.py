"""What the fault tests share: objects to change, and ways to the API server that a test can break."""

import concurrent.futures
import contextlib
import itertools
import threading
import time

import controlplane
from lab import objects

RELAY_PORT = 13144
NODE = objects.node("node1", ["172.31.0.11", "fd00:31::11"], ["10.244.1.0/24", "fd00:244:1::/64"], "zone-a")


def web(number, endpoints=2, namespace="default", **metadata):
    """A Service and its slice; `endpoints` is how many it has."""
    name = f"web-{number}"
    service = objects.service(name, f"10.97.{number // 250}.{number % 250 + 1}", [objects.port(80)], namespace=namespace)
    return [service, web_slice(number, endpoints, namespace, **metadata)]


def web_slice(number, endpoints, namespace="default", **metadata):
    addresses = [f"10.244.{1 + one % 2}.{2 + (number + one) % 250}" for one in range(endpoints)]
    made = objects.endpoint_slice(f"web-{number}", [objects.endpoint(one, node="node1") for one in addresses],
                                  [objects.port(8080)], namespace=namespace)
    made["metadata"].update(metadata)
    return made


def start(plane, node, kubeconfig=None, count=3):
    """Puts the node and a few Services into the API, and starts the proxy there."""
    plane.put(NODE, *(one for number in range(count) for one in web(number)))
    node.start(kubeconfig=kubeconfig)


def change(plane):
    """Something of everything: a Service comes, one goes, one gets another endpoint."""
    plane.admin.delete(*web(0))
    plane.put(*web(100), web_slice(1, 3))


def by_relay(node, **options):
    """A relay on the way from this node to the API server."""
    return controlplane.Relay((node.cluster.fabric, controlplane.ADDRESS, RELAY_PORT),
                              (node.plane.netns, "127.0.0.1", controlplane.PORT), **options)


def relay_kubeconfig(plane, **user):
    return plane.kubeconfig("by-relay", server=f"https://{controlplane.ADDRESS}:{RELAY_PORT}", **user)


def certificate(plane, name, seconds):
    """A client certificate with a life of so many seconds, and the user entry of a kubeconfig for it. Asking again
    replaces the files."""
    made = plane.credentials.authority.issue(plane.state / name, f"/CN={name}", seconds=seconds)
    return dict(zip(("client_certificate", "client_key"), made, strict=True))


def all_at_once(plane, calls):
    """Runs calls of the client, in four threads."""
    def one(call):
        method, *arguments = call
        getattr(plane.admin, method)(*arguments)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, calls))


@contextlib.contextmanager
def changing(plane):
    """Objects change all the time inside the with block, whether the API server is there or not. Yields a function
    that says how many changes have been made so far."""
    done, made = threading.Event(), []

    def work():
        for number in itertools.cycle(range(10, 30)):
            for step in (lambda n=number: plane.admin.put(*web(n, 1 + len(made) % 3)),
                         lambda n=number: plane.admin.delete(*web((n + 7) % 20 + 10))):
                if done.is_set():
                    return
                try:
                    step()
                    made.append(number)
                except (OSError, controlplane.ApiError):
                    time.sleep(0.05)  # it is down; the next one may get through

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        yield lambda: len(made)
    finally:
        done.set()
        worker.join(60)
