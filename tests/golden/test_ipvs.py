"""`kube-proxy render` in mode ipvs prints, for every recording, what the real kube-proxy had in the kernel: virtual
servers, sets, the addresses of its device, and rules. No kernel with IPVS is needed for that."""

import re
import subprocess
import sys

import pytest
import sandbox

RECORDINGS = sandbox.ROOT / "tests" / "recordings"
# Recorded file -> what compare-rules calls it, and the headings that `render` has for it.
DUMPS = {
    "ipvs.txt": ("ipvs", ["IPv4, as ipvsadm-save -n", "IPv6, as ipvsadm-save -n"]),
    "ipset.txt": ("ipset", ["IPv4, as ipset save", "IPv6, as ipset save"]),
    "kube-ipvs0.txt": ("addresses", ["IPv4, as ip -o addr show dev kube-ipvs0", "IPv6, as ip -o addr show dev kube-ipvs0"]),
    "iptables-ipvs.txt": ("iptables", ["IPv4, as iptables-save"]),
    "ip6tables-ipvs.txt": ("iptables", ["IPv6, as ip6tables-save"]),
}
# iptables-save leaves out a table that nobody has touched.
UNTOUCHED = re.compile(r"^\*mangle\n(?::.*\n)*COMMIT\n", re.MULTILINE)


@pytest.fixture(scope="module")
def box():
    """The node of these recordings: it has no address of IPv6 but the link-local one."""
    sandbox.require()
    with sandbox.sandbox() as made:
        made.ns.ip("addr del fd00:31::11/64 dev eth0")
        yield made


@pytest.fixture(scope="module")
def rendered(box):
    """Recording -> heading -> text; each is rendered once."""
    known = {}

    def render(recording):
        if recording not in known:
            config = box.file("config.yaml", sandbox.config_of(recording))
            done = box.proxy("render", "-f", sandbox.objects_of(recording), "--config", config, "--proxy-mode", "ipvs")
            assert done.returncode == 0, done.stderr
            known[recording] = sections(done.stdout)
        return known[recording]

    return render


def sections(text):
    parts = re.split(r"^# (.*) would print it\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def compare(box, recording, name, text):
    """What compare-rules says: "same", or the difference."""
    actual = box.file(f"actual/{name}", text)
    done = subprocess.run([sys.executable, sandbox.ROOT / "tests" / "support" / "compare-rules", DUMPS[name][0],
                           RECORDINGS / recording / name, actual], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize("recording", sandbox.RECORDINGS)
@pytest.mark.parametrize("name", DUMPS)
def test_renders_what_the_real_one_had(box, rendered, recording, name):
    parts = rendered(recording)
    text = "".join(parts[heading] for heading in DUMPS[name][1])
    assert compare(box, recording, name, UNTOUCHED.sub("", text)) == "same"


@pytest.mark.parametrize("name, before, after", [
    ("ipvs.txt", "-s rr -p 60", "-s rr"),
    ("ipset.txt", "add KUBE-NODE-PORT-TCP 30002", "add KUBE-NODE-PORT-TCP 30003"),
    ("kube-ipvs0.txt", "10.96.1.1/32", "10.96.1.9/32"),
    ("iptables-ipvs.txt", "KUBE-CLUSTER-IP dst,dst -j ACCEPT", "KUBE-CLUSTER-IP src,dst -j ACCEPT"),
])
def test_a_change_is_noticed(box, name, before, after):
    """The comparison itself must be able to fail."""
    text = (RECORDINGS / "session-affinity" / name).read_text()
    assert before in text
    assert compare(box, "session-affinity", name, text) == "same"
    assert compare(box, "session-affinity", name, text.replace(before, after)) != "same"
