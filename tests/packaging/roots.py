"""Throw-away root file systems: what is done in one is gone with it, and never reaches the tree below it."""

import os
import pathlib
import shutil
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("KUBE_PROXY", REPOSITORY / "build" / "kube-proxy"))

# What the proxy keeps once its node is set up (src/daemon/privileges.cpp).
KEPT_CAPABILITIES = {"NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE"}

# Runs in namespaces of its own, which end with it, and it ends when its standard input does. The layer that takes
# what is written is a tmpfs, as overlayfs refuses some file systems.
_HOLD = """
set -e
layer=$1 lower=$2
mount -t tmpfs tmpfs "$layer"
mkdir "$layer/upper" "$layer/work" "$layer/root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
cd "$layer/root"
mount -t proc proc proc
mount --rbind /dev dev
for folder in run tmp dev/shm; do mount -t tmpfs tmpfs $folder; done
echo ready
read -r _ || true
"""


def need(**programs):
    """Skips the test where a program is missing; need(buildah="buildah") names the package to install."""
    for program, package in programs.items():
        program = program.replace("_", "-")
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (package {package})")


def need_root():
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts and network namespaces")


def run(*argv, **options):
    """Runs a program to its end; its output is in the failure when it fails."""
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout


class Root:
    """A root file system over `lower`, with a network namespace of its own unless `network` is asked for."""

    def __init__(self, folder, lower="/", network=False):
        self.path = pathlib.Path(folder) / "root"
        namespaces = ["--mount"] if network else ["--mount", "--net"]
        self._namespaces = namespaces
        self._holder = subprocess.Popen(
            ["unshare", *namespaces, "--propagation", "private", "sh", "-c", _HOLD, "sh", str(folder), str(lower)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self._holder.stdout.readline() != "ready\n":
            pytest.skip(f"no throw-away root can be made here: {self._holder.communicate()[1].strip()}")

    def close(self):
        self._holder.communicate()

    def command(self, *argv):
        return ["nsenter", f"--target={self._holder.pid}", *self._namespaces, "chroot", str(self.path), *[str(a) for a in argv]]

    def outside(self, *argv):
        """Runs a program in the namespaces, but with the machine's own files: to mount and to copy in."""
        return run("nsenter", f"--target={self._holder.pid}", *self._namespaces, *argv)

    def copy(self, source, target):
        self.outside("install", "-D", source, f"{self.path}{target}")

    def run(self, *argv, **options):
        return run(*self.command(*argv), **options)

    def try_run(self, *argv):
        return subprocess.run(self.command(*argv), capture_output=True, text=True, check=False)

    def files(self):
        """Every path, but for what dpkg and apt write about themselves."""
        found = self.run("find", "/", "-xdev", "-not", "-path", "/proc/*").splitlines()
        own = ("/var/lib/dpkg/", "/var/log/", "/var/cache/", "/var/lib/apt/")
        return {path for path in found if not path.startswith(own)}


def build_deb(folder):
    """The Debian package, made from the build that is being tested."""
    need(cpack="cmake", dpkg_shlibdeps="dpkg-dev", file="file")
    config = BINARY.parent / "CPackConfig.cmake"
    if not config.exists():
        pytest.skip(f"{config} is not there: run cmake")
    run("cpack", "--config", config, "-B", folder)
    packages = list(pathlib.Path(folder).glob("*.deb"))
    assert len(packages) == 1
    return packages[0]
