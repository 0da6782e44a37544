"""What a person sees of mode nftables: the nft of each Debian prints our table, and `kube-proxy render` prints the same.

The nft of a release that this machine does not run is fetched from the mirror that the machine's own apt uses, and kept
in a cache outside the tree. It runs with the libraries of its release and changes nothing of the machine.
"""

import functools
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

import pytest
import sandbox as boxes
import yaml

DEBIAN_12, DEBIAN_13 = "bookworm", "trixie"
RELEASES = [DEBIAN_12, DEBIAN_13]
FAMILIES = {"ipv4": "ip", "ipv6": "ip6"}

# Where later releases have other words for the same table: what they print, and what Debian 12 prints.
OTHER_WORDS = {
    "priorities near -100 are named after dstnat at hook output, too": [
        ("hook output priority dstnat - 10;", "hook output priority -110;"), ("hook output priority dstnat;", "hook output priority -100;")],
}

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unavailable(Exception):
    """The text says what is missing."""


def run(*argv, **options):
    try:
        return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True, timeout=300, **options).stdout
    except FileNotFoundError as error:
        raise Unavailable(f"the program {argv[0]}") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines()
        raise Unavailable(f"{argv[0]}: {said[0] if said else error.returncode}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{argv[0]}: no answer") from error


def own_release():
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def mirror():
    """Where this machine has Debian from."""
    sources = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    for uri, release, component in map(str.split, sources.splitlines()):
        if (release, component) == (own_release(), "main"):
            return uri
    raise Unavailable("a mirror of Debian among apt's sources")


def fetch(release, folder):
    """Unpacks nft and all that it needs into `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        own = pathlib.Path(scratch)
        for name in ("state/lists/partial", "cache/archives/partial"):
            (own / name).mkdir(parents=True)
        (own / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {release} main\n")
        (own / "status").touch()  # nothing is installed: so all that nft needs is fetched
        options = {"Dir::Etc::sourcelist": own / "sources.list", "Dir::Etc::sourceparts": "-", "Dir::State": own / "state",
                   "Dir::State::status": own / "status", "Dir::Cache": own / "cache", "APT::Sandbox::User": "root",
                   "Acquire::Languages": "none", "Acquire::http::Timeout": 20, "Acquire::https::Timeout": 20, "Acquire::Retries": 1}
        apt = ["apt-get", "-q", "-y", *(f"-o{name}={value}" for name, value in options.items())]
        run(*apt, "--error-on=any", "update")
        run(*apt, "--no-install-recommends", "--download-only", "install", "nftables")
        for package in (own / "cache" / "archives").glob("*.deb"):
            run("dpkg-deb", "-x", package, folder)


def root_of(release):
    """The folder with the release's nft; fetches it if it is not there."""
    base = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")) / "kube-proxy-nft"
    target = base / release
    if not target.exists():
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=base) as scratch:
            made = pathlib.Path(scratch) / release
            made.mkdir()
            fetch(release, made)
            # All or nothing, and whoever else fetched it meanwhile is as good.
            if not target.exists():
                os.rename(made, target)
    return target


@functools.cache
def find_nft(release):
    """The command line of the release's nft; or why there is none, as a text."""
    if release == own_release() and shutil.which("nft"):
        return ["nft"]
    try:
        root = root_of(release)
    except Unavailable as missing:
        return str(missing)
    loader = next(path for path in root.rglob("ld-linux*.so.*") if not path.is_symlink())
    libraries = sorted({str(path.parent) for path in root.rglob("lib*.so.*")})
    return [loader, "--library-path", ":".join(libraries), root / "usr" / "sbin" / "nft"]


def nft(release):
    found = find_nft(release)
    if isinstance(found, str):
        pytest.skip(f"needs the nft of {release}: {found}")
    return found


def in_words_of_debian_12(listing):
    for later, earlier in (pair for pairs in OTHER_WORDS.values() for pair in pairs):
        listing = listing.replace(later, earlier)
    return listing


class Node:
    """A box that holds the table for some objects."""

    def __init__(self, box, *arguments):
        self.box = box
        self.arguments = ["--proxy-mode", "nftables", *arguments]
        done = box.proxy("apply", *self.arguments)
        assert done.returncode == 0, done.stderr

    def list(self, release, family, *options):
        done = self.box.run(*nft(release), *options, "list", "table", FAMILIES[family], "kube-proxy")
        assert done.returncode == 0, done.stderr
        return done

    def listing(self, release, family):
        done = self.list(release, family)
        assert done.stderr == ""
        return done.stdout

    def render(self, family):
        done = self.box.proxy("render", *self.arguments, "--family", family)
        assert done.returncode == 0, done.stderr
        return "".join(line for line in done.stdout.splitlines(keepends=True) if not line.startswith("#"))


@pytest.fixture(scope="module", params=boxes.RECORDINGS)
def recording(request):
    return request.param


@pytest.fixture(scope="module")
def node(recording):
    with boxes.sandbox() as box:
        config = box.file("config.yaml", boxes.config_of(recording))
        yield Node(box, "-f", boxes.objects_of(recording), "--config", config)


@pytest.mark.parametrize("family", FAMILIES)
def test_render_prints_what_nft_prints(node, family):
    assert node.render(family) == node.listing(DEBIAN_12, family)


@pytest.mark.parametrize("family", FAMILIES)
def test_debian_13_prints_what_debian_12_prints(node, family):
    assert in_words_of_debian_12(node.listing(DEBIAN_13, family)) == node.listing(DEBIAN_12, family)


@pytest.mark.parametrize("release", RELEASES)
def test_programs_can_read_the_table(node, release):
    """The original reads it so when it takes over."""
    for family, word in FAMILIES.items():
        items = json.loads(node.list(release, family, "--json").stdout)["nftables"]
        assert {"family": word, "name": "kube-proxy"}.items() <= next(item["table"] for item in items if "table" in item).items()


def proxied_services(recording):
    """namespace/name of each Service that a proxy has to do with."""
    for found in yaml.safe_load_all(boxes.objects_of(recording).read_text()):
        if not found or found["kind"] != "Service":
            continue
        meta, spec = found["metadata"], found["spec"]
        labels = meta.get("labels") or {}
        if spec.get("clusterIP", "None") != "None" and "service.kubernetes.io/service-proxy-name" not in labels:
            yield f"{meta['namespace']}/{meta['name']}"


def test_every_service_is_found_by_its_name(node, recording):
    listings = "".join(node.listing(DEBIAN_12, family) for family in FAMILIES)
    found = set(re.findall(r' comment "([^":]*)[:"]', listings))
    services = set(proxied_services(recording))
    assert services
    assert services - found == set()


NAMESPACE, SERVICE, PORT = "n" * 63, "s" * 63, "p" * 63

LONG = f"""
apiVersion: v1
kind: Service
metadata: {{name: {SERVICE}, namespace: {NAMESPACE}}}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  sessionAffinity: ClientIP
  loadBalancerSourceRanges: [203.0.113.0/25]
  ports:
  - {{name: {PORT}, port: 80, protocol: TCP, nodePort: 30080}}
  - {{name: {PORT[1:]}q, port: 81, protocol: TCP, nodePort: 30081}}
status: {{loadBalancer: {{ingress: [{{ip: 5.6.7.8}}]}}}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: one, namespace: {NAMESPACE}, labels: {{kubernetes.io/service-name: {SERVICE}}}}}
addressType: IPv4
endpoints: [{{addresses: [10.244.1.2]}}]
ports: [{{name: {PORT}, port: 8080, protocol: TCP}}]
"""


@pytest.mark.parametrize("release", RELEASES)
def test_names_of_the_greatest_length(box, release):
    made = Node(box, "-f", box.file("long.yaml", LONG))
    listing = made.listing(release, "ipv4")
    # Comments end where nft would not read them any more.
    assert f'10.96.0.10 . tcp . 80 comment "{NAMESPACE}/{SERVICE}:" : goto' in listing
    assert f'10.96.0.10 . tcp . 81 comment "{NAMESPACE}/{SERVICE}:" : goto reject-chain' in listing
    assert in_words_of_debian_12(listing) == made.render("ipv4")
