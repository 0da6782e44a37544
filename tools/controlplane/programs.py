"""Builds the programs of the control plane from source, at the versions that go.mod pins, into a cache.

The cache is outside the tree and keyed by everything that decides what comes out: a second call does nothing.
"""

import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
KUBERNETES = "v1.36.4"

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
}

# The version is what the programs report, and kube-apiserver derives from it which APIs it serves.
_VERSION = {"gitVersion": KUBERNETES, "gitMajor": "1", "gitMinor": "36"}
_LINK = "-s -w " + " ".join(f"-X k8s.io/{package}/version.{key}={value}"
                            for package in ("component-base", "client-go/pkg") for key, value in _VERSION.items())
FLAGS = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", _LINK]
_ENVIRONMENT = {"CGO_ENABLED": "0"}

# These say that what is here is wrong, rather than that something cannot be had.
_OUR_FAULT = ("checksum mismatch", "missing go.sum entry", "updates to go.mod needed", "no required module provides")


class Unavailable(Exception):
    """The control plane cannot be built on this machine; the text says what is missing, in one line."""


@dataclasses.dataclass(frozen=True)
class Binaries:
    """Where the programs are."""

    folder: pathlib.Path

    def path(self, name):
        return str(self.folder / name)


def cache_folder():
    """The folder for exactly these versions and flags."""
    digest = hashlib.sha256()
    for part in ((HERE / "go.mod").read_bytes(), (HERE / "go.sum").read_bytes(), repr((FLAGS, _ENVIRONMENT)).encode()):
        digest.update(hashlib.sha256(part).digest())
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "kube-proxy-control-plane" / digest.hexdigest()[:16]


def built():
    """The programs, if build() has been here; raises Unavailable otherwise."""
    folder = cache_folder()
    if not all(os.access(folder / name, os.X_OK) for name in PACKAGES):
        raise Unavailable("a control plane (make conformance builds it)")
    return Binaries(folder)


def build(say=print):
    """Builds what is missing and returns Binaries. `say` is told about every program, with its seconds."""
    try:
        return built()
    except Unavailable:
        pass
    go = _find_go()
    _load_modules(go, say)
    target = cache_folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    # All or nothing: a cache that is half full would be taken for a whole one by whoever comes next.
    temporary = pathlib.Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        for name, package in PACKAGES.items():
            _build_one(go, name, package, temporary, say)
        temporary.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return built()


def _find_go():
    """The go command: on the PATH, or where its own installation instructions put it."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if not go:
        raise Unavailable("Go is not installed (1.26 or newer is needed), so the control plane cannot be built")
    return go


def _load_modules(go, say):
    """Has the sources at hand, from the module cache or the network. Compiling comes later, so what fails here is
    a Go that is too old or a source that cannot be reached."""
    began = time.monotonic()
    done = _go(go, "list", "-mod=readonly", "-deps", *PACKAGES.values())
    if done.returncode != 0:
        text = done.stderr.strip() or "go list failed"
        if any(words in text for words in _OUR_FAULT):
            raise RuntimeError(f"tools/controlplane: {text}")
        raise Unavailable(f"the sources of the control plane cannot be had: {text.splitlines()[-1].strip()}")
    say(f"control plane: sources are here ({time.monotonic() - began:.0f} s)")


def _build_one(go, name, package, folder, say):
    began = time.monotonic()
    done = _go(go, "build", *FLAGS, "-o", str(folder / name), package)
    if done.returncode != 0:
        raise RuntimeError(f"control plane: {name} does not build:\n{done.stderr}")
    say(f"control plane: {name} built ({time.monotonic() - began:.0f} s)")


def _go(go, *arguments):
    environment = {**os.environ, **_ENVIRONMENT}
    return subprocess.run([go, *arguments], cwd=HERE, env=environment, text=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
