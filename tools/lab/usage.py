"""What a process holds and does, from /proc."""

import os
import pathlib
import re


def memory_mb(pid):
    """Resident memory, the part of it that is the process's own, and the most it has had; and all address space."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return {key: int(re.search(rf"^{key}:\s+(\d+)", status, re.MULTILINE)[1]) / 1024 for key in ("VmRSS", "RssAnon", "VmHWM", "VmSize")}


def descriptors(pid):
    """What its descriptors stand for, sorted: paths, and kinds such as socket and pipe."""
    found = []
    for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(path).partition(":[")[0])
        except OSError:
            pass  # closed meanwhile
    return sorted(found)


def wakeups(pid):
    """How often each thread has gone to sleep, and so been woken, since it began."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text(encoding="utf-8")
        found[int(task.name)] = int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1])
    return found


def cpu_seconds(pid):
    """How long it has been at work on a processor, in its own code and in the kernel's."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
