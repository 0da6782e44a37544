"""A network device whose other end is this program: it reads what is sent, and says what comes in."""

import errno
import fcntl
import os
import struct

_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
_DEVICE = "/dev/net/tun"
_QUEUE = 20_000


def missing():
    """What this machine lacks for such a device, as a list of short sentences."""
    try:
        os.close(os.open(_DEVICE, os.O_RDWR))
        return []
    except OSError as error:
        return [f"{_DEVICE} ({error.strerror})"]


class Tun:
    """The device `name` in a network namespace, of layer 3: packets begin with their IP header. Goes away with close()."""

    def __init__(self, space, name):
        self.name = name
        with space.entered():
            self.fd = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.ioctl(self.fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
            space.ip(f"link set {name} txqueuelen {_QUEUE} addrgenmode none up")
        except BaseException:
            self.close()
            raise

    def close(self):
        os.close(self.fd)

    def send(self, packet):
        """The packet comes in on the device. What the kernel does with it is done when this returns, unless it goes by another
        device that has a queue."""
        os.write(self.fd, packet)

    def receive(self):
        """The next packet that the kernel has sent by the device, or None."""
        try:
            return os.read(self.fd, 65536)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
            return None
