"""The container image: built by the Dockerfile on a Debian made here, as there may be no registry in reach."""

import json
import subprocess

import pytest
import roots

BASE = "localhost/debian:12"
IMAGE = "localhost/kube-proxy:test"


class Buildah:
    """buildah with a store of its own, and nothing of it elsewhere."""

    def __init__(self, folder):
        self._argv = ["buildah", "--root", f"{folder}/store", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]

    def __call__(self, *argv):
        return roots.run(*self._argv, *argv).strip()


@pytest.fixture(scope="module")
def buildah(tmp_path_factory):
    roots.need_root()
    roots.need(buildah="buildah")
    tool = Buildah(tmp_path_factory.mktemp("buildah"))
    yield tool
    tool("rm", "--all")
    tool("rmi", "--all", "--force")


@pytest.fixture(scope="module")
def base(buildah, debian, tmp_path_factory):
    archive = tmp_path_factory.mktemp("archive") / "debian.tar"
    roots.run("tar", "-C", debian, "-cf", archive, ".")
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, archive, "/")
    buildah("commit", "--quiet", "--rm", container, BASE)
    archive.unlink()
    return BASE


@pytest.fixture(scope="module")
def image(buildah, base):
    buildah("bud", "--isolation", "chroot", "--pull-never", "--build-arg", f"BASE={base}", "--tag", IMAGE,
            "--file", roots.REPOSITORY / "packaging" / "Dockerfile", roots.REPOSITORY)
    return IMAGE


@pytest.fixture(scope="module")
def files(buildah, image):
    return buildah("mount", buildah("from", "--pull-never", image))


@pytest.fixture
def container(files, tmp_path):
    """The files of the image, in a network of its own."""
    made = roots.Root(tmp_path, lower=files)
    yield made
    made.close()


def test_the_command_is_the_program_and_there_is_no_entrypoint(buildah, image):
    config = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
    assert config["Cmd"] == ["/usr/local/bin/kube-proxy"]
    assert "Entrypoint" not in config


def test_the_program_runs_from_where_the_daemonset_expects_it(container):
    assert container.run("/usr/local/bin/kube-proxy", "--version") == "Kubernetes v1.36.4\n"
    assert container.run("/bin/sh", "-c", "kube-proxy --version") == "Kubernetes v1.36.4\n"


@pytest.mark.parametrize("program", ["iptables", "ip6tables-restore", "ipset", "nft", "modprobe"])
def test_it_has_the_programs_that_the_proxy_calls(container, program):
    container.run(program, "--version")


def test_it_has_neither_conntrack_nor_a_compiler(container):
    for program in ("conntrack", "g++", "cmake"):
        assert container.try_run("sh", "-c", f"command -v {program}").returncode != 0


def test_apt_leaves_no_lists_behind(container):
    assert container.run("find", "/var/lib/apt/lists", "-type", "f") == ""


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("kind", ["nft", "legacy"])
def test_the_proxy_writes_with_the_variant_of_the_node(container, kind, writable):
    container.run(f"iptables-{kind}-restore", input="*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n")
    container.outside("ip", "link", "set", "lo", "up")
    for name in ("bank", "kube-proxy.yaml"):
        container.outside("cp", "-r", roots.REPOSITORY / "examples" / name, f"{container.path}/tmp/")
    if not writable:
        container.outside("mount", "-o", "remount,bind,ro", container.path)
    container.run("kube-proxy", "apply", "-f", "/tmp/bank", "--config", "/tmp/kube-proxy.yaml")
    other = {"nft": "legacy", "legacy": "nft"}[kind]
    for family in ("iptables", "ip6tables"):
        assert "KUBE-SERVICES" in container.run(f"{family}-{kind}-save")
        assert "KUBE-SERVICES" not in container.run(f"{family}-{other}-save")


def test_its_size_is_that_of_debian_and_a_little(debian, files):
    def megabytes(folder):
        return int(subprocess.run(["du", "-sm", "--apparent-size", folder], capture_output=True, text=True, check=True).stdout.split()[0])
    print("Debian", megabytes(debian), "MB, image", megabytes(files), "MB")
    assert megabytes(files) < megabytes(debian) + 60
