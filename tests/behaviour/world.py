"""Takes the cluster to a step of the table, and finds out what becomes of a packet there."""

import concurrent.futures
import itertools
import time

import controlplane
import lab
import rows
import stand_in

POD_PORTS = (8080, 8081, 8082)
NODE_PORTS = (7080,)
MIN_HITS = 15
MAX_HITS = 150
ANSWER_S = 5.0  # a machine may stand still for a moment
ATTEMPT_S = 1.0  # of an answer that may not be there yet
REFUSAL_S = 0.7
# Longer than TCP waits before it sends its first packet again: an error about the first may get lost, as it can come
# back while connect() still holds the socket.
SILENCE_S = 1.3
# Not a multiple of the pods there are: clients that come back in the same order would get the same ones by round robin.
SPREAD_SOURCES = 17
# Below those that the kernel gives out, and the node ports.
OWN_PORTS = range(10_000, 30_000)


class World:
    """One cluster with a proxy on every node, moved from step to step. Steps of one scenario go in their order.

    `scenarios` are those that it will be asked for. Of these, rows.side_by_side() says which go together.
    """

    def __init__(self, binary, mode, scenarios, source="manifests"):
        able = [one for one in scenarios if not one.needs or one.needs in mode.features]
        self._groups = rows.side_by_side(able)
        self.cluster = lab.Cluster("kpb")
        try:
            self._start(binary, mode, source)
        except BaseException:
            self.cluster.close()
            raise

    def _start(self, binary, mode, source):
        self.mode = mode
        nodes = self.cluster.nodes()
        self.cluster.serve_alike(nodes, tcp=NODE_PORTS, udp=NODE_PORTS)
        self.cluster.serve_alike([name for name in self.cluster.members if name not in nodes], tcp=POD_PORTS, udp=POD_PORTS)
        self.cluster.wait_serving()
        self._sources = {name: self.cluster.add_sources(name, SPREAD_SOURCES) for name in ("client1", "ext1")}
        self._manifests = {"manifests": self._folder, "api": self._api, "stand-in": self._stand_in}[source]()
        self._marker = lab.Marker(self.cluster, self._manifests, "web1a", POD_PORTS[0], mode)
        self._manifests.put(*self.cluster.node_objects())
        self.daemons = [lab.Daemon(self.cluster, node, binary, self._source(node), mode) for node in self.cluster.nodes()]
        # IPVS remembers a connection for minutes after its end. One from the same port to the same pod by another address would
        # get its answers from the first address.
        self._ports = itertools.cycle(OWN_PORTS) if mode.name == "ipvs" else itertools.repeat(0)
        self._config = {}
        self._silences = {}
        self._stuck = ""
        self._group = []
        self._position = -1

    def _folder(self):
        return lab.Manifests(self.cluster.state / "manifests")

    def _stand_in(self):
        return stand_in.StandIn(self.cluster)

    def _source(self, node):
        """Where the proxy of a node has its objects from."""
        return self._manifests.of(node) if isinstance(self._manifests, stand_in.StandIn) else self._manifests

    def _api(self):
        """A real API server in the place of the folder of manifests."""
        plane = controlplane.ControlPlane(controlplane.built(), "kpbc")
        self.cluster.adopt(plane)
        plane.attach(self.cluster.fabric)
        return controlplane.Objects(plane)

    def close(self):
        self.cluster.close()

    # Getting there

    def go(self, scenario, index):
        """Makes the cluster be in the given step, walking through the steps before it when need be."""
        if scenario not in self._group or self._position > index:
            self._leave()
            self._enter(next(group for group in self._groups if scenario in group))
        if self._stuck:
            raise lab.NotInTime(f"an earlier step failed: {self._stuck}")
        while self._position < index:
            self._position += 1
            try:
                self._take_step()
            except lab.NotInTime as error:
                self._stuck = str(error)  # or each of the rows would wait as long
                raise

    def _leave(self):
        if self._group and self._group[0].host_port:
            self.mode.remove_host_port(self.cluster, self._group[0].host_port[0])
        self._group = []
        for daemon in self.daemons:
            if not daemon.running():  # a step stopped it, or it crashed, which check() has told
                daemon.start()

    def _enter(self, group):
        first = group[0]
        if first.config != self._config:
            self._config = first.config
            for daemon in self.daemons:
                daemon.stop()
                daemon.configure(first.config)
                daemon.start()
        if first.host_port:
            node, proto, port, pod, pod_port = first.host_port
            self.mode.add_host_port(self.cluster, node, proto, port, self.cluster.address(pod), pod_port)
        self._group = group
        self._position = -1
        self._stuck = ""

    def _steps(self):
        """The steps that are taken now, one for each scenario that has not seen its last."""
        return [one.steps[self._position] for one in self._group if self._position < len(one.steps)]

    def _doing(self):
        """What happens to the nodes in this step; a scenario in which something does is alone."""
        return self._steps()[0].do

    def _take_step(self):
        self._silences = {}
        if self._doing():
            self._do(self._doing())
        made = [one for scenario in self._group for one in scenario.objects(self._position)]
        self._manifests.replace([*self.cluster.node_objects(), *rows.resolve(made, self.cluster), *self._marker.objects()])
        # A flush must be noticed by the daemon itself: moving the marker would make it write its rules anyway.
        if self._doing() not in ("stop", "flush"):
            self._marker.wait(self.cluster.nodes(), daemons=self.daemons)

    def _do(self, what):
        for daemon in self.daemons:
            if what == "flush":
                self.mode.flush(self.cluster, daemon.node)
            elif what == "start":
                daemon.start()
            elif what == "stop":
                daemon.stop()
            elif what == "restart":
                daemon.restart()
            elif what == "kill-and-start":
                daemon.kill()
                daemon.start()
            else:
                raise ValueError(f"no such thing to do: {what}")

    # Looking

    def check(self, row):
        """Raises AssertionError with what was seen when the row does not hold."""
        if not isinstance(row.expect, rows.Answered):
            self._check_fate(row)
        elif row.expect.moves_after:
            self._check_moves(row)
        else:
            self._check_answers(row)
        if self._doing() != "stop":
            dead = [daemon.node for daemon in self.daemons if not daemon.running()]
            assert not dead, f"kube-proxy is no longer running on {dead}"

    def _send(self, row, timeout=ANSWER_S, **more):
        address = row.to.host
        if address in self.cluster.members:
            address = self.cluster.address(address, row.to.family)
        return self.cluster.request(row.client, row.to.proto, address, row.to.port, payload=b"x" * row.payload,
                                    source_port=row.source_port or next(self._ports), timeout=timeout * lab.SLACK, **more)

    def _send_until(self, row, wanted, timeout):
        """Sends until the fate is a wanted one or the row's time is over; returns the last result."""
        deadline = time.monotonic() + row.seconds * lab.SLACK
        while True:
            result = self._send(row, timeout)
            if wanted(result) or time.monotonic() > deadline:
                return result
            time.sleep(0.02)

    def _check_fate(self, row):
        def wanted(result):
            return result.kind != "answered" if row.expect == rows.CLOSED else result.kind == row.expect

        # The same holds for a client that keeps its port as in _check_answers.
        if row.expect == rows.DROPPED:
            result = self._send_until(row, wanted, SILENCE_S) if row.source_port else self._silence(row)
        else:
            result = self._send_until(row, wanted, REFUSAL_S)
        assert wanted(result), f"expected {row.expect}, seen: {result}"

    def _silence(self, row):
        """Sends once and listens. All rows that expect silence in this step listen at the same time."""
        if row not in self._silences:
            every = [one.in_mode(self.mode.name) for step in self._steps() for one in step.rows]
            together = [one for one in every if one.expect == rows.DROPPED]
            with concurrent.futures.ThreadPoolExecutor(len(together)) as pool:
                results = pool.map(lambda one: self._send(one, SILENCE_S), together)
                self._silences = dict(zip(together, results, strict=True))
        return self._silences[row]

    def _check_answers(self, row):
        # A client that keeps its port may still meet the pod of before: its connection goes a moment after the rules.
        def wanted(result):
            return result.kind == "answered" and (not row.source_port or self._who(row, result))

        self._expect(row, self._send_until(row, wanted, ATTEMPT_S))
        seen = set()
        for count in range(1, MAX_HITS + 1):
            seen.add(self._expect(row, self._send(row)))
            if count >= MIN_HITS and (row.expect.sticky or len(seen) == len(row.expect.pods)):
                break
        if row.expect.sticky:
            assert len(seen) == 1, f"expected one pod to answer all, seen: {sorted(seen)}"
        else:
            assert seen == set(row.expect.pods), f"never seen: {sorted(set(row.expect.pods) - seen)}"

    def _check_moves(self, row):
        """Many clients at once: after the timeout at least one of them must land elsewhere."""
        def round_of_hits():
            return {source: self._expect(row, self._send(row, source=source), source)
                    for source in self._sources[row.client]}

        def two_quick_rounds():
            begun = time.monotonic()
            rounds = round_of_hits(), round_of_hits()
            return rounds if time.monotonic() - begun < row.expect.moves_after else None

        first, second = lab.wait_for(two_quick_rounds, "this machine is quick enough to tell", 60)
        assert second == first, "a client moved before the timeout"
        time.sleep(row.expect.moves_after + 0.2)  # nothing to wait for but time itself
        assert round_of_hits() != first, "no client moved after the timeout"

    @staticmethod
    def _who(row, result):
        """The pod that gave the answer, in the words of the row; empty if it should not have."""
        return {result.pod, f"{result.pod}:{result.port}"} & set(row.expect.pods)

    def _expect(self, row, result, source=None):
        """Checks one answer and returns who gave it, in the words of the row."""
        assert result.kind == "answered", f"expected an answer, seen: {result.kind}"
        who = self._who(row, result)
        assert who, f"expected one of {row.expect.pods}, seen: {result}"
        assert result.length == max(row.payload, 1 if row.to.proto == "udp" else 0), f"cut short: {result.length}"
        if row.expect.source == "client":
            assert result.source in ({source} if source else self.cluster.addresses(row.client)), str(result)
        elif row.expect.source != "any":
            node = self._relay(row) if row.expect.source == "relay" else row.expect.source
            assert result.source in self.cluster.addresses(node), f"not {node}: {result}"
        return who.pop()

    def _relay(self, row):
        """The node to which the packets of the row come first."""
        return row.to.host if row.to.host in self.cluster.nodes() else self.cluster[row.client].node
