"""--cleanup on a kernel that has IPVS: virtual servers, kube-ipvs0 and sets go, and the rest stays."""

import pathlib

import pytest
import sandbox

# What is asked before and after, and must answer with the same as before mode ipvs was there.
SHOW = """show() {
  for ask in 'ipvsadm -Sn' 'ip -o link' 'ip -o -4 address' 'ipset save' 'iptables-save' 'ip6tables-save' 'sysctl net.ipv4.vs.conntrack'; do
    echo "== $ask"; $ask | sed -e '/^#/d' -e 's/ \\[.*//' -e 's/ initval.*//'
  done
}
"""

# Foreign state, then what mode ipvs of the real kube-proxy left, then --cleanup twice. At last a device
# that has our name and is not ours.
SCRIPT = SHOW + """
set -e
proxy=$2
ip link add mine type dummy
ipset create blocked hash:ip
for program in iptables ip6tables; do
  $program -t nat -N KUBE-MARK-DROP
  $program -t mangle -N KUBE-KUBELET-CANARY
  $program -A INPUT -j ACCEPT
done
sysctl -q net.ipv4.vs.conntrack=1
show >foreign

recording=$1/load-balancer-source-ranges
sort -r $recording/ipset.txt | ipset restore
iptables-restore --noflush <$recording/iptables-ipvs.txt
ip6tables-restore --noflush <$recording/ip6tables-ipvs.txt
ipvsadm-restore -n <$recording/ipvs.txt
ipvsadm -A -t [fd00:10:96::1]:443 -s rr
ip link add kube-ipvs0 type dummy
ip addr add 10.96.0.1/32 dev kube-ipvs0
show >before

clean_up() {
  $proxy --cleanup 2>$1-errors && status=0 || status=$?
  echo $status >$1-status
  show >$1
}
clean_up first
clean_up second
ip link add kube-ipvs0 type bridge
clean_up bridge
"""


def sections(text):
    """{"ipvsadm -Sn": [line...]...}"""
    parts = [part.splitlines() for part in text.split("== ")[1:]]
    return {lines[0]: lines[1:] for lines in parts}


@pytest.fixture(scope="module")
def folder():
    """What the script has written."""
    with sandbox.sandbox() as box:
        script = box.file("script", SCRIPT)
        done = box.run("sh", "-x", script, sandbox.ROOT / "tests" / "recordings", sandbox.BINARY, cwd=box.folder)
        assert done.returncode == 0, done.stderr
        yield pathlib.Path(box.folder)


def test_mode_ipvs_was_there(folder):
    before = sections((folder / "before").read_text())
    assert len(before["ipvsadm -Sn"]) > 20
    assert any("kube-ipvs0" in line for line in before["ip -o link"])
    assert any("-m ipvs" in line for line in before["iptables-save"])
    assert sum(line.startswith("create KUBE-") for line in before["ipset save"]) == 34


@pytest.mark.parametrize("turn", ["first", "second"])
def test_cleanup_removes_what_mode_ipvs_has_left_and_nothing_else(folder, turn):
    errors = (folder / f"{turn}-errors").read_text().splitlines()
    assert (folder / f"{turn}-status").read_text() == "0\n"
    assert [line for line in errors if "Using iptables proxy" not in line] == []
    assert sections((folder / turn).read_text()) == sections((folder / "foreign").read_text())


def test_a_device_of_another_kind_stays_and_is_told(folder):
    assert (folder / "bridge-status").read_text() == "1\n"
    assert "expect dummy device, got device type: bridge" in (folder / "bridge-errors").read_text()
    assert "kube-ipvs0" in (folder / "bridge").read_text()
