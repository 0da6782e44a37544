"""What a network namespace holds of mode ipvs, read without starting a program where that is possible."""

import dataclasses
import ipaddress
import re

JIFFIES_PER_SECOND = 250


@dataclasses.dataclass
class Real:
    weight: int
    active: int  # connections
    inactive: int


@dataclasses.dataclass
class Server:
    scheduler: str
    flags: str  # as the kernel's list names them
    reals: dict  # "10.244.1.3:8080": Real


def servers(netns):
    """{"TCP 10.96.0.1:80": Server...}, of both families."""
    found, current = {}, None
    with netns.entered(), open("/proc/thread-self/net/ip_vs", encoding="ascii") as file:
        lines = file.read().splitlines()[3:]
    for line in lines:
        words = line.split()
        if words[0] == "->":
            current.reals[_address(words[1])] = Real(int(words[3]), int(words[4]), int(words[5]))
        else:
            current = Server(words[2], " ".join(words[3:]), {})
            found[f"{words[0]} {_address(words[1])}"] = current
    return found


def persistence(server):
    """The seconds for which a client keeps its real server; 0 if it does not."""
    found = re.search(r"persistent (\d+)", server.flags)
    return int(found[1]) // JIFFIES_PER_SECOND if found else 0


def weights(netns, server):
    """{"10.244.1.3:8080": weight...}; nothing if there is no such virtual server."""
    found = servers(netns).get(server)
    return {name: real.weight for name, real in found.reals.items()} if found else None


def _address(text):
    """"0A600001:0050" or "[fd00:...]:0050" as people write it."""
    ip, _, port = text.rpartition(":")
    if ip.startswith("["):
        return f"[{ipaddress.IPv6Address(ip[1:-1])}]:{int(port, 16)}"
    return f"{ipaddress.IPv4Address(int(ip, 16))}:{int(port, 16)}"
