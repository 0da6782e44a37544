"""Everything that a soak does to a proxy. Each method is one deed; `choose` is the source of all chance."""

import contextlib
import os
import resource
import signal
import socket
import struct
import time

import lab
from api import ApiObjects
from ground import FILLERS, PODS, PROBED, STEADY_IPS, filler
from lab import conntrack, objects, usage

HTTP_PORTS = (10249, 10256)
HOSTILE = (b"", b"GET /metrics HT", b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000, b"\x16\x03\x01\x02\x00\x01",
           b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
# A larger table takes too long to fill.
MAX_CONNTRACK = 300_000
# With the pause before each, they take more than two seconds.
LASTING_ANSWERS = 150
# What iptables says of a chain that cannot be deleted: nf_tables, then legacy.
IN_USE = ("Device or resource busy", "Too many links", "Directory not empty")
# How long the proxy may take to see by itself that one table was flushed; then a change makes it see.
PATIENCE_S = 15
# It is at rest when so many looks, one after the other, find the same.
RESTING_LOOKS = 30
LOOK_EVERY_S = 0.1
FOREIGN = "NEIGHBOUR"
DAMAGE = ("delete table {family} kube-proxy", "flush chain {family} kube-proxy services", "flush map {family} kube-proxy service-ips",
          "flush map {family} kube-proxy endpoints", "flush set {family} kube-proxy hairpin-connections",
          "add rule {family} kube-proxy services counter", "flush set {family} kube-proxy fingerprint")


class Trouble:
    """`without_rules` and `without_room` are the times in which requests may fail, though a pod was healthy: the neighbour
    had taken the rules away, or the kernel had no room for a new connection. `removals` are, for each probed Service, the
    times in which it lost a pod, from the change until the kernel had it."""

    def __init__(self, ground, choose):
        self.ground = ground
        self.choose = choose
        self.without_rules = []
        self.without_room = []
        self.removals = {number: [] for number in range(PROBED)}
        self.restarted = 0
        self._hostile = []
        self._healthy = dict.fromkeys(range(PROBED), set(PODS))
        self._removing = []  # (number of the Service, since when)
        self._nat("-N", FOREIGN)
        self._nat("-I", "PREROUTING", "-j", FOREIGN)

    # What happens in a cluster all day

    def change_a_service(self):
        number = self.choose.randrange(FILLERS)
        if self.choose.random() < 0.3:
            gone = [objects.key(one) for one in filler(number, ())]
            with contextlib.suppress(KeyError):  # it is gone already
                self.ground.manifests.delete(*gone)
        else:
            self.ground.manifests.put(*filler(number, self.choose.sample(range(20), self.choose.randrange(4))))

    def change_many_services(self):
        for _ in range(30):
            self.change_a_service()

    def change_healthy_pods(self):
        self._put_probed(self.choose.randrange(PROBED), self.choose.sample(PODS, self.choose.randrange(1, len(PODS) + 1)))

    def _put_probed(self, number, pods):
        if not self._healthy[number] <= set(pods):
            self._removing.append((number, time.monotonic()))
        self._healthy[number] = set(pods)
        self.ground.put_probed(number, pods)

    def settle(self):
        """Makes all objects as they were at the start."""
        self._healthy = dict.fromkeys(range(PROBED), set(PODS))
        self.ground.settle()

    def wait_taken_up(self):
        """Waits until everything that was written so far is in the kernel."""
        self.ground.wait_taken_up()
        for number, since in self._removing:
            self.removals[number].append((since, time.monotonic()))
        self._removing.clear()

    # The proxy ends

    def stop_and_start(self):
        self.ground.daemon.stop()
        self._start()

    def kill_and_start(self):
        """In the middle of a sync, most often."""
        self.change_many_services()
        time.sleep(self.choose.random() * 0.3)
        self.choose.choice((self.ground.daemon.kill, self.ground.daemon.kill_all))()
        self._start()

    def fill_the_disk(self):
        """It starts, and cannot write a line of its log until it is started again."""
        self.ground.daemon.stop()
        self.restarted += 1
        self.ground.daemon.start_without_log()

    def take_the_memory(self):
        """It cannot grow, nor start a program; if it dies of that it is started again."""
        daemon = self.ground.daemon
        limit = int(usage.memory_mb(daemon.pid)["VmSize"]) << 20
        resource.prlimit(daemon.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        self.change_many_services()
        time.sleep(1.0)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(daemon.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        try:
            self.wait_taken_up()
        except lab.NotInTime:
            if daemon.running():
                raise
            self._start()

    def _start(self):
        self.restarted += 1
        self.ground.daemon.start()

    # The node is in trouble

    def kill_a_program(self):
        """As the kernel does when memory runs out."""
        self.wait_taken_up()  # while the proxy starts, a program that fails is a reason to end
        self.change_many_services()
        with contextlib.suppress(lab.NotInTime):
            for pid in lab.wait_for(self.ground.daemon.children, "a program is at work", 1.0, every=0.001):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def lose_netlink_messages(self):
        self.wait_taken_up()  # as above
        self._fault("enobufs", "", 1.5, self.change_healthy_pods)

    def turn_the_clock(self):
        self._fault("clock", str(self.choose.choice((-86400 * 400, -3600, 3600, 86400 * 400))), 1.0, self.change_a_service)

    def _fault(self, name, text, seconds, deed):
        self.ground.faults.on(name, text)
        deed()
        time.sleep(seconds)
        self.ground.faults.off(name)

    def fill_conntrack(self):
        """Streams that the kernel knows go on; new connections get no entry."""
        node = self.ground.cluster["node1"].netns
        if conntrack.capacity(node) > MAX_CONNTRACK:
            return
        lab.wait_for(self._streams_last, "the kernel takes every stream for one that lasts", 120)
        begun = time.monotonic()
        conntrack.fill(node)
        self.change_healthy_pods()
        time.sleep(1.0)
        conntrack.empty(node)
        self.without_room.append((begun, self._wait_healed()))

    def _streams_last(self):
        """For the first two seconds of a UDP stream, as of one that a flush has broken, its entry is given up for others."""
        before = self.ground.traffic.report()
        self.ground.traffic.wait_answers(LASTING_ANSWERS)
        return all(now.failed == then.failed for now, then in zip(self.ground.traffic.report(), before, strict=True))

    def hang_up_watches(self):
        """The API server ends every stream of events, and has forgotten what the proxy knows."""
        if isinstance(self.ground.manifests, ApiObjects):
            self.ground.manifests.server.hang_up()
            self.change_a_service()

    # Strangers

    def flush_nat(self):
        """The proxy looks through this table rarely when that takes long; the next change finds out as well."""
        self._vandalise(lambda: (self._nat("-F"), self._delete_chains(), self._foreign_again(), self._see_to_it()))

    def _delete_chains(self):
        try:
            self._nat("-X")
        except RuntimeError as error:
            if not any(words in str(error) for words in IN_USE):
                raise  # else the proxy was faster: its rules are back, and the flush has been mended

    def _see_to_it(self):
        try:
            self._wait_healed(PATIENCE_S)
        except lab.NotInTime:
            self.wait_taken_up()

    def flush_everything(self):
        self._vandalise(lambda: (self.ground.mode.flush(self.ground.cluster, "node1"), self._foreign_again()))

    def unhook_and_restart(self):
        """What only a full comparison finds, and a start makes one."""
        if self.ground.mode.name == "nftables":
            self._vandalise(lambda: (self.ground.daemon.stop(), self._nft("flush chain ip kube-proxy nat-prerouting"), self._start()))
        else:
            self._vandalise(lambda: (self._nat("-F", "PREROUTING"), self._nat("-I", "PREROUTING", "-j", FOREIGN), self.stop_and_start()))

    def damage_a_table(self):
        """Of mode nftables: all of one, or a piece that no packet may miss at once."""
        self.wait_taken_up()  # there is a table
        deed = self.choose.choice(DAMAGE).format(family=self.choose.choice(("ip", "ip6")))
        self._vandalise(lambda: (self._nft(deed), self._wait_mended(deed)))

    def _wait_mended(self, deed):
        try:
            lab.wait_for(lambda: not self.ground.differences(), f"what \"{deed}\" did is mended", 60)
        except lab.NotInTime as error:
            raise lab.NotInTime(f"{error}\n{self.ground.differences()[:2000]}\n{self.ground.daemon.log_text()[-3000:]}") from None

    def add_foreign_rules(self):
        self._nat("-A", FOREIGN, "-d", f"192.0.2.{self.choose.randrange(1, 250)}", "-j", "RETURN")

    def foreign_rules_stay(self):
        return f"-A PREROUTING -j {FOREIGN}" in self.ground.mode.run(self.ground.cluster, "node1", ["iptables", "-t", "nat", "-S"])

    def _vandalise(self, deed):
        begun = time.monotonic()
        deed()
        self.without_rules.append((begun, self._wait_healed()))

    def _foreign_again(self):
        """Who flushes everything sets up their own rules again."""
        self._nat("-N", FOREIGN)
        self._nat("-I", "PREROUTING", "-j", FOREIGN)

    def _wait_healed(self, seconds=60.0):
        """Waits until all addresses that traffic goes to answer; returns when. Nothing is changed, as that might help."""
        from_where = [("client1", STEADY_IPS[0]), ("client1", STEADY_IPS[1]), ("ext1", STEADY_IPS[0])]
        for client, address in from_where:
            lab.wait_for(lambda client=client, address=address: self._echoes(client, address), f"{address} answers again", seconds)
        return time.monotonic()

    def _echoes(self, client, address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.suppress(OSError), self.ground.cluster[client].netns.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(1.0)
            sock.connect((address, 9000))
            sock.sendall(b"1\n")
            return bool(sock.recv(100))
        return False

    def _nat(self, *arguments):
        self.ground.mode.run(self.ground.cluster, "node1", ["iptables", "-w", "60", "-t", "nat", *arguments])

    def _nft(self, command):
        self.ground.mode.run(self.ground.cluster, "node1", ["nft", command])

    def pester_http(self):
        """Clients that connect and do nothing, say half a sentence, or nonsense; those of the time before hang up."""
        self.hang_up()
        for port in HTTP_PORTS:
            for said in HOSTILE * 4:
                with contextlib.suppress(OSError):
                    sock = self.ground.cluster["node1"].netns.socket(socket.AF_INET, socket.SOCK_STREAM)
                    self._hostile.append(sock)
                    sock.settimeout(0.5)
                    sock.connect(("127.0.0.1", port))
                    sock.sendall(said)

    def hang_up(self):
        for sock in self._hostile:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # with a reset
            sock.close()
        self._hostile.clear()

    def close(self):
        self.hang_up()

    def held(self):
        """What the proxy holds at rest: memory, and descriptors. A program that looks for flushed rules has pipes for a moment."""
        pid, looks = self.ground.daemon.pid, []

        def at_rest():
            looks.append((usage.memory_mb(pid)["VmRSS"], [one for one in usage.descriptors(pid) if one != "pipe"]))
            del looks[:-RESTING_LOOKS]
            return len(looks) == RESTING_LOOKS and all(descriptors == looks[0][1] for _, descriptors in looks)

        lab.wait_for(at_rest, "the proxy comes to rest", 60, every=LOOK_EVERY_S)
        return min(memory for memory, _ in looks), looks[0][1]
