"""Counts what programs write into the kernel's tables of Services, by probes in the kernel itself."""

import collections
import os
import pathlib
import re

TRACING = pathlib.Path("/sys/kernel/tracing")
# Functions that each carry out one request to change something. A request to look passes none of them.
PROBES = {
    "virtual_or_real_server": "ip_vs:ip_vs_genl_set_cmd",
    "set_entry_added": "ip_set:ip_set_uadd", "set_entry_removed": "ip_set:ip_set_udel",
    "set_created": "ip_set:ip_set_create", "set_destroyed": "ip_set:ip_set_destroy", "set_flushed": "ip_set:ip_set_flush",
    "address_added": "inet_rtm_newaddr", "address_removed": "inet_rtm_deladdr",
    "address6_added": "inet6_rtm_newaddr", "address6_removed": "inet6_rtm_deladdr",
    "link_made": "rtnl_newlink", "link_removed": "rtnl_dellink",
    # Of the iptables that is built on nf_tables. Its -S ends with a transaction as well, of nothing.
    "table_made": "nf_tables:nf_tables_newtable",
    "chain_made": "nf_tables:nf_tables_newchain", "chain_removed": "nf_tables:nf_tables_delchain",
    "rule_added": "nf_tables:nf_tables_newrule", "rule_removed": "nf_tables:nf_tables_delrule",
}


class Writes:
    """Counts for this process and for the programs that it starts from now on, until close()."""

    def __init__(self):
        self._group = f"kp{os.getpid()}"
        self._instance = TRACING / "instances" / self._group
        for name, symbol in PROBES.items():
            self._define(f"p:{self._group}/{name} {symbol}")
        self._instance.mkdir()
        (self._instance / "options" / "event-fork").write_text("1")
        (self._instance / "set_event_pid").write_text(str(os.getpid()))
        (self._instance / "events" / self._group / "enable").write_text("1")

    def close(self):
        (self._instance / "events" / self._group / "enable").write_text("0")
        self._instance.rmdir()
        for name in PROBES:
            self._define(f"-:{self._group}/{name}")

    def clear(self):
        (self._instance / "trace").write_text("")

    def counts(self):
        """{(program, what): how often} since clear()."""
        text = (self._instance / "trace").read_text()
        return dict(collections.Counter(re.findall(r"^ *(\S+)-\d+ .*?: (\w+): \(", text, re.MULTILINE)))

    @staticmethod
    def _define(line):
        fd = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)  # open() would look for its end, which it lacks
        try:
            os.write(fd, line.encode() + b"\n")
        finally:
            os.close(fd)
