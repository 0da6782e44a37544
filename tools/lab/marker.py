"""Knowing by traffic alone that a change has reached the kernel."""

import itertools

from lab import objects
from lab.wait import SLACK, NotInTime, wait_for


class Marker:
    """A Service that gets a new cluster IP, and a new name for its port, each time.

    The name ties the Service to its slices: it has endpoints only once both have come, also where they travel apart.
    It is written after everything else; when its new address answers on a node, what was written before it is in that
    node's kernel too. This works for any mode, and says how long a change took.

    In a piecemeal mode an answer says only that the proxy is at work. It begins with the next change when it is done with
    this one: there the marker moves twice.
    """

    def __init__(self, cluster, manifests, backend, port, mode=None):
        self._cluster = cluster
        self._manifests = manifests
        self._backend = backend
        self._port = port
        self._moves = 2 if mode and mode.piecemeal else 1
        self._count = 0

    def objects(self):
        """The marker as it stands, for a Manifests.replace() of the whole folder."""
        families = (4, 6) if self._cluster.dual_stack else (4,)
        name = f"m{self._count}"
        made = [objects.service("lab-marker", self._addresses(), [objects.port(80, name=name)], namespace="lab")]
        return made + [
            objects.endpoint_slice("lab-marker", [self._cluster.endpoint(self._backend, family)],
                                   [objects.port(self._port, name=name)], suffix=f"v{family}", namespace="lab")
            for family in families]

    def wait(self, nodes, seconds=60.0, daemons=()):
        """Moves the marker and waits until every one of the nodes serves it.

        Raises NotInTime, and at once when one of the daemons is seen to have ended.
        """
        for _ in range(self._moves):
            self._move(nodes, seconds, daemons)

    def _move(self, nodes, seconds, daemons):
        self._count += 1
        # The slices first: the service must not be seen, and rejected, without endpoints.
        self._manifests.put(*reversed(self.objects()))
        for node in nodes:
            for address in self._addresses():
                # Before the rules are there this often ends in silence, so it must be short to notice them soon; but a
                # busy machine may take longer than that to answer.
                patience = itertools.chain((0.05,) * 20, itertools.repeat(0.5))
                wait_for(lambda node=node, address=address: self._answers(node, address, next(patience), daemons),  # noqa: B023
                         f"{node} serves the marker {address}", seconds, every=0.01)

    def _addresses(self):
        pair = [f"10.111.{self._count // 250}.{self._count % 250 + 1}", f"fd00:10:96::1:{self._count + 1:x}"]
        return pair if self._cluster.dual_stack else pair[:1]

    def _answers(self, node, address, timeout, daemons):
        for daemon in daemons:
            if not daemon.running():
                raise NotInTime(f"kube-proxy on {daemon.node} has ended; its log: {daemon.log_text()[-2000:]}")
        return self._cluster.request(node, "tcp", address, 80, timeout=timeout * SLACK).kind == "answered"
