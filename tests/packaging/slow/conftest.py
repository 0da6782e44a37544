import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import roots  # noqa: E402


def mirror():
    """Where this machine's apt gets Debian from, and through which proxy."""
    uris = roots.run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Suite: bookworm").split()
    proxy = roots.run("apt-config", "dump", "--format", "%v%n", "Acquire::http::Proxy").strip()
    return (uris or ["http://deb.debian.org/debian"])[0], proxy


@pytest.fixture(scope="session")
def debian(tmp_path_factory):
    """The smallest Debian 12, in a folder."""
    roots.need_root()
    roots.need(debootstrap="debootstrap", unshare="util-linux")
    folder = tmp_path_factory.mktemp("debian") / "root"
    uri, proxy = mirror()
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **({"http_proxy": proxy} if proxy else {})}
    roots.run("debootstrap", "--variant=minbase", "bookworm", folder, uri, env=environment)
    if proxy:
        (folder / "etc/apt/apt.conf.d/90proxy").write_text(f'Acquire::http::Proxy "{proxy}";\n')
    yield folder
    shutil.rmtree(folder)  # pytest would keep it for days
