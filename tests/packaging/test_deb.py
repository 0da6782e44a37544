"""The Debian package, from outside. slow/test_install.py installs it."""

import re

import roots


def test_it_holds_these_files(deb):
    lines = [line.split(maxsplit=5) for line in roots.run("dpkg-deb", "-c", deb).splitlines()]
    assert {line[1] for line in lines} == {"root/root"}
    assert {line[5]: line[0] for line in lines if not line[5].endswith("/")} == {
        "./etc/default/kube-proxy": "-rw-r--r--",
        "./lib/systemd/system/kube-proxy.service": "-rw-r--r--",
        "./usr/bin/kube-proxy": "-rwxr-xr-x",
        "./usr/share/doc/kube-proxy/README.md": "-rw-r--r--",
        "./usr/share/doc/kube-proxy/changelog.Debian.gz": "-rw-r--r--",
        "./usr/share/doc/kube-proxy/copyright": "-rw-r--r--",
        "./usr/share/doc/kube-proxy/examples/config.yaml": "-rw-r--r--",
        "./usr/share/doc/kube-proxy/examples/kube-proxy.yaml": "-rw-r--r--",
        "./usr/share/doc/kube-proxy/examples/least-privilege.yaml": "-rw-r--r--",
    }
    assert "./var/lib/kube-proxy/" in [line[5] for line in lines]
    assert {line[0] for line in lines if line[5].endswith("/")} == {"drwxr-xr-x"}


def test_it_says_what_it_needs(deb):
    fields = dict(re.findall(r"^([\w-]+): (.*)$", roots.run("dpkg-deb", "-f", deb), re.MULTILINE))
    assert fields["Package"] == "kube-proxy"
    assert fields["Version"] == "1.36.4-1"
    depends = re.findall(r"(?:^|, )([^ ,]+)", fields["Depends"])
    assert {"iptables", "libc6", "libyaml-0-2"} <= set(depends)
    assert "conntrack" not in fields["Depends"] + fields["Recommends"]


def test_the_file_name_has_package_version_and_architecture(deb):
    architecture = roots.run("dpkg", "--print-architecture").strip()
    assert deb.name == f"kube-proxy_1.36.4-1_{architecture}.deb"
