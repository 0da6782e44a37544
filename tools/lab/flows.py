#!/usr/bin/env python3
"""Traffic that never stops, and what became of each part of it. Started by lab.Traffic.

    flows.py '[{"name": "a", "netns": "kp-1-client1", "kind": "stream", "proto": "udp", "address": "10.96.0.1", "port": 9000,
                "pause": 0.005, "timeout": 1, "own_ports": false}]'

A "stream" is one connection (or one UDP socket) that lives on: it sends a number, waits until an echo server (see
server.py) has sent that number back with its name, and sends the next. A stream that breaks is begun anew. "probes" are
requests one after the other, each by a connection of its own. `pause` is the time between two of them. With "own_ports"
they take their source ports in turn from a wide range.

A line on standard input is answered with one line of JSON: a record for each flow. The end of the input ends all flows.
TCP segments that were sent again are counted; those of a time in which the machine stood still (stalls.py) are counted
apart, as "late": nothing was lost.
"""

import collections
import itertools
import json
import os
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lab import client, netns  # noqa: E402
from lab.stalls import Stalls, stood_still  # noqa: E402

KEPT_FAILURES = 20_000
OWN_PORTS = range(10_000, 60_000)
# Offset of tcpi_total_retrans in struct tcp_info.
TOTAL_RETRANS = 100


class Record:
    """What became of one flow. Times are those of CLOCK_MONOTONIC, which all processes share."""

    def __init__(self, name):
        self.name = name
        self.sent = 0
        self.failed = 0
        self.failures = []  # the first of them: (begun, ended, what)
        self.pods = collections.Counter()  # who answered how often
        self.moves = 0  # how often a stream was answered by another pod than before
        self.retransmissions = []  # of TCP streams: (begun, ended, segments)
        self.longest_gap_s = 0.0  # between two answers
        self._last_answer = None

    def answered(self, pod):
        now = time.monotonic()
        if self._last_answer:
            self.longest_gap_s = max(self.longest_gap_s, now - self._last_answer)
        self._last_answer = now
        self.pods[pod] += 1

    def fail(self, begun, what):
        self.failed += 1
        if len(self.failures) < KEPT_FAILURES:
            self.failures.append((begun, time.monotonic(), what))

    def public(self):
        told = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        return {**told, "retransmissions": list(self.retransmissions)}  # it may grow


class Stream:
    """One connection after the other, each as long-lived as the way to the pod allows."""

    def __init__(self, flow, record):
        self._flow = flow
        self._record = record
        self._space = netns.Space(flow["netns"])
        self._number = 0
        self._pod = None
        self._retransmitted = 0  # by the connection that is open, when we looked
        self._looked = 0.0

    def run(self):
        while True:
            begun = time.monotonic()
            try:
                with self._connect() as sock:
                    while True:
                        begun = time.monotonic()
                        self._exchange(sock)
                        time.sleep(self._flow["pause"])
            except OSError as error:
                self._record.fail(begun, f"number {self._number}: {error}")
                time.sleep(0.02)  # a refusal comes at once

    def _connect(self):
        flow = self._flow
        self._retransmitted, self._looked = 0, time.monotonic()
        family = socket.AF_INET6 if ":" in flow["address"] else socket.AF_INET
        kind = socket.SOCK_STREAM if flow["proto"] == "tcp" else socket.SOCK_DGRAM
        sock = self._space.socket(family, kind)
        sock.settimeout(flow["timeout"])
        try:
            sock.connect((flow["address"], flow["port"]))
        except OSError:
            sock.close()
            raise
        return sock

    def _exchange(self, sock):
        self._number += 1
        self._record.sent += 1
        sock.sendall(b"%d\n" % self._number)
        line = b""
        while not line.endswith(b"\n"):
            block = sock.recv(4096)
            if not block:
                raise ConnectionResetError("closed by the other end")
            line += block
            # An echo that comes after its time-out is not the one we wait for.
            if line.endswith(b"\n") and int(line.split()[-1]) < self._number:
                line = b""
        pod, number = line.split()
        if int(number) != self._number:
            raise OSError(f"{number!r} came back")
        if self._flow["proto"] == "tcp":
            self._count_retransmissions(sock)
        self._record.moves += self._pod not in (None, pod)
        self._pod = pod
        self._record.answered(pod.decode())

    def _count_retransmissions(self, sock):
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TOTAL_RETRANS + 4)
        total, now = int.from_bytes(info[TOTAL_RETRANS:], sys.byteorder), time.monotonic()
        if total > self._retransmitted:
            self._record.retransmissions.append((self._looked, now, total - self._retransmitted))
        self._retransmitted, self._looked = total, now


class Probes:
    """One request after the other, each by a connection of its own."""

    def __init__(self, flow, record):
        self._flow = flow
        self._record = record
        self._space = netns.Space(flow["netns"])

    def run(self):
        flow = self._flow
        ports = itertools.cycle(OWN_PORTS) if flow["own_ports"] else itertools.repeat(0)
        while True:
            begun = time.monotonic()
            self._record.sent += 1
            try:
                result = client.request(self._space, flow["proto"], flow["address"], flow["port"],
                                        source_port=next(ports), timeout=flow["timeout"])
                what = result.kind
            except (OSError, ValueError) as error:
                what = str(error)
            if what == client.ANSWERED:
                self._record.answered(result.pod)
            else:
                self._record.fail(begun, what)
            time.sleep(flow["pause"])


def report(records, stalls):
    """The records, with the retransmissions counted: those that are the machine's own doing apart."""
    told = [record.public() for record in records]
    known = stalls.so_far()  # asked last, so that nothing is told of which it does not know
    for one in told:
        retransmissions = one.pop("retransmissions")
        one["late"] = sum(segments for begun, ended, segments in retransmissions if stood_still(known, begun, ended))
        one["retransmitted"] = sum(segments for _, _, segments in retransmissions) - one["late"]
    return told


def main():
    stalls = Stalls()
    records = []
    for flow in json.loads(sys.argv[1]):
        record = Record(flow["name"])
        records.append(record)
        made = {"stream": Stream, "probes": Probes}[flow["kind"]](flow, record)
        threading.Thread(target=made.run, daemon=True).start()
    for _ in sys.stdin:
        print(json.dumps(report(records, stalls)), flush=True)
    os._exit(0)  # the threads are in the middle of something


if __name__ == "__main__":
    main()
