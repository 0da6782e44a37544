"""What the benchmarks beside this file measure with: processes, the kernel's memory, and who disturbs."""

import itertools
import os
import pathlib
import re
import statistics
import time

import lab

_TICK = os.sysconf("SC_CLK_TCK")
_NETLINK_NETFILTER = 12
_GROUP_NFTABLES = 1 << 6  # NFNLGRP_NFTABLES as a bit of the groups that /proc/net/netlink shows


def say(text):
    print(text, flush=True)


def row(*cells):
    say("| " + " | ".join(map(str, cells)) + " |")


def head(*cells):
    row(*cells)
    row(*["---"] * len(cells))


def number(value):
    """With as many digits as say something."""
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def p99(values):
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


# Processes

def cpu(pid):
    """Seconds in the process itself, and in the programs that it called and that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return [sum(map(int, fields[at:at + 2])) / _TICK for at in (11, 13)]


def memory_mb(pid, key="VmRSS"):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(rf"^{key}:\s+(\d+)", status, re.MULTILINE)[1]) / 1024


def wait_idle(process, quiet=5.0, seconds=120.0):
    """Waits until a lab.Process and what it calls have had next to nothing to do for `quiet` seconds."""
    since, used = time.monotonic(), sum(cpu(process.pid))

    def idle():
        nonlocal since, used
        before, used = used, sum(cpu(process.pid))
        if process.children() or used - before > 0.03:
            since = time.monotonic()
        return time.monotonic() - since >= quiet

    lab.wait_for(idle, f"{process.name} has nothing to do", seconds, every=0.25)


# The kernel

def kernel_mb():
    """Memory of the whole kernel that programs cannot be asked to give back, once it holds still; off by half a megabyte
    or so, as everything on the machine counts."""
    seen = [_kernel_mb()]
    for _ in range(40):
        time.sleep(0.5)
        seen.append(_kernel_mb())
        if max(seen[-3:]) - min(seen[-3:]) < 0.3 and len(seen) >= 3:
            break
    return statistics.median(seen[-3:])


def _kernel_mb():
    text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    return sum(int(re.search(rf"^{key}:\s+(\d+)", text, re.MULTILINE)[1]) for key in ("SUnreclaim", "VmallocUsed")) / 1024


def wait_undisturbed(seconds=60.0):
    """Waits until nobody listens to changes of nftables, and says so if somebody goes on.

    While there is one listener, in whatever network namespace, the kernel describes every element that is written in any
    of them, which makes writing a large table several times slower.
    """
    deadline = time.monotonic() + seconds
    while found := nft_listeners():
        if time.monotonic() > deadline:
            say(f"  DISTURBED: {', '.join(found)}: listening to changes of nftables, which makes writing tables slower")
            return
        time.sleep(1)


def nft_listeners():
    """Processes that are told of changes of nftables, in all network namespaces, as "name (id)"."""
    sockets = itertools.chain.from_iterable(text.splitlines()[1:] for text in _netlink_sockets())
    rows = (line.split() for line in sockets)
    inodes = {one[-1] for one in rows if int(one[1]) == _NETLINK_NETFILTER and int(one[3], 16) & _GROUP_NFTABLES}
    return sorted(set(_holders(inodes))) if inodes else []


def _netlink_sockets():
    """The file net/netlink of every network namespace: of those that a process is in, and of those with a name."""
    seen = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            inode = (process / "ns/net").stat().st_ino
            if inode not in seen:
                yield (process / "net/netlink").read_text(encoding="ascii")
                seen.add(inode)
        except OSError:
            pass  # it has just ended
    for path in pathlib.Path("/run/netns").glob("*"):
        try:
            if path.stat().st_ino not in seen:
                space = lab.netns.Space(path.name)
                with space.entered():
                    yield pathlib.Path("/proc/thread-self/net/netlink").read_text(encoding="ascii")
                space.close()
        except OSError:
            pass  # it has just been removed


def _holders(inodes):
    """Whose descriptors these sockets are."""
    links = {f"socket:[{one}]" for one in inodes}
    for path in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(path) in links:
                process = path.parents[1]
                yield f"{(process / 'comm').read_text(encoding='utf-8').strip()} ({process.name})"
        except OSError:
            pass  # closed meanwhile
