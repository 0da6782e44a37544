"""Network namespaces: making them, and opening sockets inside them.

A thread may change its network namespace for the time of one socket() call; the socket stays in the namespace it
was made in. That is how the clients send from inside a pod without a process per request.
"""

import contextlib
import ctypes
import os
import socket
import subprocess

CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def _setns(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, "setns: " + os.strerror(code))


def enter(name):
    """Moves the calling thread into the named namespace for good."""
    fd = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(fd)
    finally:
        os.close(fd)


def ip(*args, batch=None):
    """Runs the ip tool; raises with its message when it fails. `batch` is a list of commands for -batch."""
    argv = ["ip", *args]
    if batch is not None:
        argv += ["-batch", "-"]
    done = subprocess.run(argv, input="\n".join(batch or []) + "\n", text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


class Space:
    """A named network namespace that somebody has made, for as long as close() is not called."""

    def __init__(self, name):
        self.name = name
        self._fd = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self):
        os.close(self._fd)

    @contextlib.contextmanager
    def entered(self):
        """The calling thread is inside the namespace for the length of the with block."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(self._fd)
            try:
                yield
            finally:
                _setns(home)
        finally:
            os.close(home)

    def socket(self, family, kind):
        with self.entered():
            return socket.socket(family, kind)


class Netns(Space):
    """A network namespace of our own. Made by the constructor, removed by close()."""

    def __init__(self, name):
        ip("netns", "add", name)
        super().__init__(name)

    def close(self):
        super().close()
        ip("netns", "del", self.name)

    def ip(self, *commands):
        """Runs several ip commands inside, e.g. ns.ip("link set lo up", "route add default via 10.0.0.1")."""
        ip("-n", self.name, batch=list(commands))

    def sysctl(self, values):
        """Sets sysctls below net/ that belong to the namespace, e.g. {"ipv4/ip_forward": 1}."""
        with self.entered():
            for key, value in values.items():
                with open(f"/proc/sys/net/{key}", "w", encoding="ascii") as file:
                    file.write(str(value))
