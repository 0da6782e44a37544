"""A demo that stays up when the command that began it has ended, and its end."""

import os
import re
import signal

import lab


def run(show):
    """Runs show(kept) in a child process. Returns when the child calls kept(), which lives on, or ends."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os._exit(_in_child(show, writer))
    os.close(writer)
    # Ctrl-C reaches the child as well; it cleans up, and we wait for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    with os.fdopen(reader) as pipe:
        if pipe.read():
            return 0
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _in_child(show, writer):
    def kept():
        ending = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, ending)
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.write(writer, b"kept")
        os.close(writer)
        signal.sigwait(ending)

    try:
        return show(kept)
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything is removed again", flush=True)
        return 130
    except Exception as error:  # the last place that can tell
        print(f"demo: {error}", flush=True)
        return 1


def running(prefix):
    """The processes that hold a demo up, found by the names of their namespaces: PREFIX-PID-NAME."""
    names = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
    found = (re.fullmatch(re.escape(prefix) + r"-(\d+)-.*", name) for name in names)
    pids = {int(match[1]) for match in found if match}
    return sorted(pid for pid in pids if _is_demo(pid))


def _is_demo(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"demo" in file.read()
    except OSError:
        return False


def stop_all(prefix):
    pids = running(prefix)
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    for pid in pids:
        lab.wait_for(lambda pid=pid: not _is_demo(pid), f"the demo of process {pid} ends", 15)
    lab.sweep(prefix)  # what a killed one has left
    print(f"demo: {len(pids)} ended, everything is removed" if pids else "demo: none is running")
    return 0
