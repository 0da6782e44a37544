"""The Debian package in a fresh Debian 12: it comes, works and goes, and leaves nothing behind."""

import pytest
import roots

APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-qq", "--no-install-recommends")
WANTED = "/etc/systemd/system/multi-user.target.wants/kube-proxy.service"


@pytest.fixture(scope="module")
def prepared(debian, tmp_path_factory):
    """systemd, and what the package depends on, so that removing the package can bring back the state before."""
    root = roots.Root(tmp_path_factory.mktemp("prepared"), lower=debian, network=True)
    root.outside("cp", "-L", "/etc/resolv.conf", f"{root.path}/etc/resolv.conf")
    root.run(*APT, "update")
    root.run(*APT, "install", "systemd")
    yield root
    root.close()


@pytest.fixture
def node(prepared, deb):
    prepared.copy(deb, f"/tmp/{deb.name}")
    depends = roots.run("dpkg-deb", "-f", deb, "Depends").strip()
    prepared.run(*APT, "satisfy", depends)
    return prepared


def test_it_comes_works_and_goes(node, deb):
    before = node.files()
    said = node.run(*APT, "install", f"/tmp/{deb.name}")
    assert node.run("kube-proxy", "--version") == "Kubernetes v1.36.4\n"
    assert node.run("sh", "-c", "ldd /usr/bin/kube-proxy | grep 'not found' || true") == ""
    assert not node.try_run("systemctl", "is-enabled", "kube-proxy").returncode == 0, said

    node.run("systemctl", "enable", "kube-proxy")
    assert WANTED in node.files()
    said = node.run("dpkg", "--remove", "kube-proxy")
    assert "rules that are in the kernel stay" in said
    after = node.files()
    assert WANTED not in after
    assert after - before == {"/etc/default/kube-proxy"}  # settings stay until they are purged

    assert "kube-proxy --cleanup" in node.run("dpkg", "--purge", "kube-proxy")
    after = node.files()
    assert after - before == set()
    assert before - after == set()


def test_the_same_version_can_be_installed_over_itself(node, deb):
    before = node.files()
    for _ in range(2):
        node.run("dpkg", "--install", f"/tmp/{deb.name}")
    assert node.run("dpkg", "--verify", "kube-proxy") == ""
    node.run("dpkg", "--purge", "kube-proxy")
    assert node.files() == before


def test_purging_keeps_the_configuration_of_the_node(node, deb):
    node.run("dpkg", "--install", f"/tmp/{deb.name}")
    node.run("sh", "-c", "echo x >/var/lib/kube-proxy/config.yaml")
    assert "/var/lib/kube-proxy is not empty" in node.run("dpkg", "--purge", "kube-proxy")
    assert "/var/lib/kube-proxy/config.yaml" in node.files()
    node.run("rm", "-r", "/var/lib/kube-proxy")


def test_systemd_accepts_the_unit_where_it_lies(node, deb):
    node.run("dpkg", "--install", f"/tmp/{deb.name}")
    done = node.try_run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", "kube-proxy.service")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    node.run("dpkg", "--purge", "kube-proxy")


def test_lintian_finds_no_error(deb):
    roots.need(lintian="lintian")
    roots.run("lintian", "--allow-root", "--fail-on", "error", deb)
