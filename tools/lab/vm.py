"""A virtual machine with Debian's kernel, for what the kernel of this machine may lack: IPVS, dummy devices, ipsets.

    PYTHONPATH=tools python3 -B -m lab.vm prepare             get the kernel, once; needs the network
    PYTHONPATH=tools python3 -B -m lab.vm run -- ipvsadm -Ln  run a program inside, and show what it says as it says it

The guest has the file system of this machine beneath it: its programs, and the same paths. What it writes is gone when
it ends, except in the one folder that it shares with the host. Its kernel, with network and sysctls, is its own.
It runs under software emulation: /dev/kvm may be there and not work, in a machine that is itself a virtual one. Booting
takes ten to twenty seconds, and programs take five to twenty times as long as here.
"""

import dataclasses
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from lab.process import end_with_parent

SKIPPED = 77
PROCESSORS = 2
MEMORY_MB = 2048
PACKAGE = "linux-image-amd64"  # the cloud kernel has no 9p
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio", "depmod": "kmod"}

# What of the kernel's modules goes along, below kernel/. The kernel loads most of them by itself when they are asked for.
MODULES = ["net/netfilter", "net/ipv4", "net/ipv6", "net/bridge", "net/802", "net/llc", "net/sched", "net/sctp", "net/9p", "net/core",
           "crypto", "arch/x86/crypto", "lib", "fs/9p", "fs/netfs", "fs/fscache", "fs/overlayfs", "drivers/virtio",
           "drivers/net/dummy.ko", "drivers/net/veth.ko", "drivers/net/virtio_net.ko", "drivers/net/net_failover.ko", "net/packet"]
# Needed to boot, not loaded on demand, or wanted by two programs at once, which may go wrong for one of them.
LOADED = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_net", "ip_vs", "ip_set", "nf_conntrack", "nf_tables", "nfnetlink_acct"]

# The first process.
INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
modprobe -a {' '.join(LOADED)}
modprobe dummy numdummies=0
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /host
mount -t tmpfs tmpfs /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /machine
mount -t proc proc /machine/proc
mount -t sysfs sys /machine/sys
mount -o bind /dev /machine/dev
mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /machine/run
mount -t tmpfs tmpfs /machine/var/tmp
mount -t tracefs tracefs /machine/sys/kernel/tracing
mkdir -p /machine/usr/lib/modules && mount -o bind /lib/modules /machine/usr/lib/modules
share=$(sed 's/.* share=\\([^ ]*\\).*/\\1/' /proc/cmdline)
mkdir -p "/machine$share"
mount -t 9p -o trans=virtio,version=9p2000.L,rw,msize=262144 share "/machine$share"
ip link set lo up
ip addr add 192.168.77.1/24 dev lo
ip addr add 172.31.0.11/24 dev eth0
ip link set eth0 up
ip route add default via 172.31.0.1
chroot /machine /bin/sh "$share/.vm/command"
sync
poweroff -f
"""


class Unavailable(Exception):
    """No virtual machine can be had here; the text says what is missing."""


class Broken(Exception):
    """The machine ended without having run the command to its end; the text has the last lines of its console."""


@dataclasses.dataclass
class Kernel:
    release: str
    folder: pathlib.Path

    @property
    def image(self):
        return self.folder / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self):
        return self.folder / "lib" / "modules" / self.release


def cache_folder():
    """The folder for kernels with exactly these modules."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "kube-proxy-vm" / _digest(repr(MODULES))


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def available():
    """The newest kernel that prepare() has put into the cache; raises Unavailable where a machine cannot be made."""
    for program, package in PROGRAMS.items():
        if _which(program) is None:
            raise Unavailable(f"the program {program} (package {package})")
    kernels = [Kernel(path.name, path) for path in cache_folder().glob("[0-9]*.*")]
    if not kernels:
        raise Unavailable("Debian's kernel (make test-vm fetches it)")
    return max(kernels, key=lambda kernel: [int(number) for number in re.findall(r"\d+", kernel.release)])


def prepare(say=print):
    """Fetches the kernel, unless it is in the cache."""
    try:
        return available()
    except Unavailable:
        pass
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
        say("virtual machines: fetching Debian's kernel")
        kernel = _fetch(pathlib.Path(scratch))
        # All or nothing, and whoever else prepared meanwhile is as good.
        target = cache_folder() / kernel.release
        if not target.exists():
            os.rename(kernel.folder, target)
    return available()


def run(argv, folder, files=None, env=None, seconds=300, silence=None, tell=None):
    """Runs argv as root in a fresh machine, in `folder`, which it shares with the host.

    `files` maps names in that folder to their text. `tell` is called with each line of the standard output as soon as it
    is there. Raises Broken if all takes longer than `seconds`, or a line longer than `silence`. Returns what
    subprocess.run returns, with text output captured.
    """
    kernel = available()
    folder = pathlib.Path(folder).resolve()
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    exchange = folder / ".vm"
    shutil.rmtree(exchange, ignore_errors=True)
    exchange.mkdir()
    (exchange / "command").write_text(_command(argv, folder, env or {}), encoding="utf-8")
    _boot(kernel, folder, _Watch(exchange, seconds, silence or seconds, tell or (lambda line: None)))
    if not (exchange / "status").exists():
        raise Broken(f"the virtual machine ended before its command did\n{_last_words(exchange)}")
    output = {name: _text(exchange / name) for name in ("status", "stdout", "stderr")}
    return subprocess.CompletedProcess(argv, int(output["status"]), output["stdout"], output["stderr"])


class _Watch:
    """Tells the lines of a machine's output while it runs, and when to lose patience."""

    def __init__(self, exchange, seconds, silence, tell):
        self._exchange = exchange
        self._deadline = time.monotonic() + seconds
        self._silence = silence
        self._tell = tell
        self._heard = time.monotonic()
        self._rest = b""
        self._position = 0

    def look(self):
        """Tells what is new. Raises Broken when it has taken too long."""
        for line in self._new_lines():
            self._heard = time.monotonic()
            self._tell(line)
        now = time.monotonic()
        if now > self._deadline:
            raise Broken(f"the virtual machine ran out of time\n{_last_words(self._exchange)}")
        if now > self._heard + self._silence:
            raise Broken(f"the virtual machine has said nothing for {self._silence:g} s\n{_last_words(self._exchange)}")

    def _new_lines(self):
        if not (self._exchange / "stdout").exists():  # still booting
            return []
        with open(self._exchange / "stdout", "rb") as file:
            file.seek(self._position)
            new = file.read()
        self._position += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def _last_words(exchange):
    """The end of what a machine and its command have said."""
    ends = {name: "\n".join(_text(exchange / name).splitlines()[-30:]) for name in ("console", "stderr")}
    return "\n".join(f"-- end of the {name}:\n{text}" for name, text in ends.items())


def _text(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _which(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _download(scratch):
    """Gets the package with Debian's newest kernel, and returns its name."""
    try:
        depends = subprocess.run(["apt-cache", "depends", PACKAGE], capture_output=True, text=True, check=True).stdout
        package = re.search(r"Depends: (linux-image-\S+)", depends)[1]
        subprocess.run(["apt-get", "-q", "download", package], cwd=scratch, check=True, capture_output=True, text=True)
        return package
    except FileNotFoundError as error:
        raise Unavailable("apt, to get Debian's kernel") from error
    except (subprocess.CalledProcessError, TypeError) as error:  # TypeError: apt does not know PACKAGE
        said = (getattr(error, "stderr", "") or "").strip().splitlines()
        raise Unavailable(f"Debian's kernel, package {PACKAGE}: {said[-1] if said else 'apt does not know it'}") from error


def _fetch(scratch):
    package = _download(scratch)
    kernel = Kernel(package.removeprefix("linux-image-"), scratch / "kernel")
    kernel.folder.mkdir()
    modules = f"./lib/modules/{kernel.release}"
    wanted = [f"./boot/vmlinuz-{kernel.release}", f"{modules}/modules.*", *(f"{modules}/kernel/{path}" for path in MODULES)]
    unpack = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(next(scratch.glob("*.deb")))], stdout=subprocess.PIPE)
    # Not every kernel has all of MODULES: tar's complaint about that is no failure. depmod's would be.
    subprocess.run(["tar", "-x", "-C", kernel.folder, "--wildcards", *wanted], stdin=unpack.stdout, check=False, stderr=subprocess.DEVNULL)
    unpack.communicate()
    subprocess.run([_which("depmod"), "-b", kernel.folder, kernel.release], check=True)
    return kernel


def _initramfs(kernel):
    """The first file system of the machine: busybox, the modules, and INIT. Made once for each INIT."""
    image = kernel.folder / f"initramfs-{_digest(INIT)}"
    if image.exists():
        return image
    with tempfile.TemporaryDirectory(dir=kernel.folder) as scratch:
        root = pathlib.Path(scratch) / "root"
        for name in ("bin", "sbin", "proc", "sys", "dev", "host", "layer", "machine"):
            (root / name).mkdir(parents=True)
        shutil.copy(_which("busybox"), root / "bin" / "busybox")
        (root / "sbin" / "modprobe").symlink_to("/bin/busybox")
        shutil.copytree(kernel.modules, root / "lib" / "modules" / kernel.release)
        (root / "init").write_text(INIT, encoding="utf-8")
        (root / "init").chmod(0o755)
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        packed = pathlib.Path(scratch) / "initramfs"
        with open(packed, "wb") as out:  # not compressed: unpacking takes longer than reading, in emulation
            subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=root, input=names.encode(), stdout=out, check=True)
        packed.rename(image)
    return image


def _command(argv, folder, env):
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/var/tmp", "TMPDIR": "/var/tmp",
                   "LANG": "C.UTF-8", **env}
    here = shlex.quote(str(folder))
    exports = "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in environment.items())
    line = shlex.join([str(word) for word in argv])
    return f"{exports}cd {here}\n{line} >.vm/stdout 2>.vm/stderr </dev/null\necho $? >.vm/status\n"


def _boot(kernel, folder, watch):
    """Runs the machine to its end. What it writes on its console goes into a file."""
    share = "local,mount_tag=%s,path=%s,security_model=none,multidevs=remap"
    argv = [_which("qemu-system-x86_64"), "-accel", "tcg,thread=multi", "-smp", PROCESSORS, "-m", MEMORY_MB,
            "-display", "none", "-no-reboot", "-nodefaults", "-serial", "stdio",
            "-kernel", kernel.image, "-initrd", _initramfs(kernel),
            # The timer's check would fail on a loaded host, which does not let it tick in time.
            "-append", f"console=ttyS0 quiet panic=-1 mitigations=off no_timer_check share={folder}",
            "-virtfs", share % ("host", "/") + ",readonly=on", "-virtfs", share % ("share", folder),
            "-netdev", "user,id=net,net=172.31.0.0/24,host=172.31.0.1", "-device", "virtio-net-pci,netdev=net,romfile="]
    with open(folder / ".vm" / "console", "wb") as console, subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT,
            preexec_fn=end_with_parent) as machine:
        try:
            while machine.poll() is None:
                watch.look()
                time.sleep(0.1)
            watch.look()
        finally:
            machine.kill()


def main(argv):
    if argv[:1] == ["prepare"]:
        try:
            print(f"virtual machines: Debian's kernel {prepare().release} is there")
        except Unavailable as missing:
            print(f"virtual machines: not here, they need {missing}")
            return SKIPPED
        return 0
    if argv[:1] != ["run"] or len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="kp-vm-") as folder:
        done = run(argv[2:] if argv[1] == "--" else argv[1:], folder, tell=lambda line: print(line, flush=True))
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
