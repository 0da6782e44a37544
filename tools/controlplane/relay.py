"""A TCP relay in front of the API server, to make its answers slow, or its connections break."""

import contextlib
import socket
import threading
import time


class Relay:
    """Listens on a port of one namespace and passes every connection on to an address of another.

    `chunk` bytes are passed at a time, with `pause_s` between; both may be changed while it runs. It speaks no TLS:
    what it passes on is what the two ends say to each other.
    """

    def __init__(self, listen, to, chunk=65536, pause_s=0.0):
        """`listen` and `to` are (netns, address, port)."""
        self.chunk, self.pause_s = chunk, pause_s
        self.accepted = 0
        self._to = to
        self._ends = set()
        self._free = threading.Event()
        self._free.set()
        self._lock = threading.Lock()
        netns, address, port = listen
        self._door = netns.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._door.bind((address, port))
        self._door.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.drop()

    def hold(self):
        """Ends every connection there is, and lets those who come wait for release()."""
        self._free.clear()
        self.drop()

    def release(self):
        self._free.set()

    def drop(self):
        """Ends every connection there is; new ones are welcome."""
        with self._lock:
            ends, self._ends = self._ends, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self):
        while True:
            try:
                near, _ = self._door.accept()
            except OSError:
                return  # closed
            self.accepted += 1
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near):
        netns, address, port = self._to
        far = netns.socket(socket.AF_INET, socket.SOCK_STREAM)
        with self._lock:
            self._ends |= {near, far}
        self._free.wait()
        try:
            far.connect((address, port))
        except OSError:
            near.close()
            return
        threading.Thread(target=self._pass, args=(near, far), daemon=True).start()
        self._pass(far, near)

    def _pass(self, source, target):
        """One direction, until either end closes; then the other one hears of it."""
        with contextlib.suppress(OSError):
            while data := source.recv(self.chunk):
                target.sendall(data)
                if self.pause_s:
                    time.sleep(self.pause_s)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
