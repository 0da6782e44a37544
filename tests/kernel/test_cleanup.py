"""--cleanup and the start of a mode: what goes, and what stays. And what an end of the daemon leaves: everything."""

import os
import shutil
import signal

import pytest
import sandbox as boxes
from test_apply import WEB
from test_daemon import CONFIG, Daemon, wait_until
from test_nftables_daemon import NFTABLES, table

# All that --cleanup leaves of ours. Besides, it leaves sysctls and nfacct counters.
STAYS = {
    "iptables": [
        ":KUBE-FIREWALL -",
        "-A INPUT -j KUBE-FIREWALL",
        "-A OUTPUT -j KUBE-FIREWALL",
        '-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections"'
        " -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
    ],
    "ip6tables": [":KUBE-FIREWALL -", "-A INPUT -j KUBE-FIREWALL", "-A OUTPUT -j KUBE-FIREWALL"],
    "ipset": [],
    "nft": [],
}

# Of the kubelet, of container networks, of an administrator. Some have names that look like ours.
FOREIGN_RULES = """*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
-A FORWARD -m comment --comment "not -j KUBE-PROXY-CANARY" -j ACCEPT
COMMIT
*filter
:DOCKER-USER - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-ROUTER-INPUT - [0:0]
-A INPUT -m set --match-set {set} src -j DROP
-A INPUT -j KUBE-ROUTER-INPUT
-A FORWARD -j DOCKER-USER
-A KUBE-ROUTER-INPUT -m comment --comment "kubernetes forwarding rules" -j ACCEPT
COMMIT
*nat
:CNI-HOSTPORT-DNAT - [0:0]
:KUBE-HOSTPORTS - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-DROP - [0:0]
-A PREROUTING -j CNI-HOSTPORT-DNAT
-A PREROUTING -m comment --comment "kube hostport portals" -j KUBE-HOSTPORTS
-A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 8080 -j DNAT --to-destination {pod}:80
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
COMMIT
"""
FOREIGN_SETS = ("create blocked hash:net family inet\nadd blocked 198.51.100.0/24\n"
                "create blocked6 hash:net family inet6\nadd blocked6 2001:db8:bad::/48\n"
                "create KUBE-6-CLUSTER-IP-2 hash:ip family inet6\ncreate KUBE-ROUTER bitmap:port range 0-100\n")
FOREIGN_TABLES = "add table inet kube-proxy-mine; add chain inet kube-proxy-mine c; add table bridge kube-proxy; add table ip other"
OUR_TABLES = "".join(f"add table {family} {name}; add chain {family} {name} c; add rule {family} {name} c counter drop; "
                     for family in ("ip", "ip6") for name in ("kube-proxy", "kube-proxy-resets"))


@pytest.fixture(autouse=True)
def programs():
    for program in ("ipset", "nft"):
        if shutil.which(program) is None:
            pytest.skip(f"needs the program {program}, to make what is cleaned up")


def succeed(box, *argv, **options):
    done = box.run(*argv, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dumps(box):
    """Everything that --cleanup might touch, as lists of lines."""
    tables = [line for line in succeed(box, "nft", "list", "tables").splitlines()
              if line not in {f"table {family} {name}" for family in ("ip", "ip6") for name in ("mangle", "filter", "nat")}]  # of iptables-nft
    sets = sorted(succeed(box, "ipset", "save").splitlines())
    return {"iptables": box.rules("ipv4"), "ip6tables": box.rules("ipv6"), "ipset": [line.split(" initval")[0] for line in sets],
            # A daemon may be removing one just now.
            "nft": [line for table in tables for line in box.run("nft", "list", *table.split()).stdout.splitlines()]}


def make_foreign(box):
    succeed(box, "ipset", "restore", input=FOREIGN_SETS)
    succeed(box, "iptables-restore", "--noflush", input=FOREIGN_RULES.format(set="blocked", pod="10.244.1.9"))
    succeed(box, "ip6tables-restore", "--noflush", input=FOREIGN_RULES.format(set="blocked6", pod="[fd00:244::9]"))
    succeed(box, "nft", FOREIGN_TABLES)


def recorded(recording, name):
    return (boxes.ROOT / "tests" / "recordings" / recording / name).read_text()


def make_ipvs(box, recording):
    """What mode ipvs of the real kube-proxy has left; without the one match that needs IPVS in the kernel."""
    lines = recorded(recording, "ipset.txt").splitlines()
    succeed(box, "ipset", "restore", "-exist", input="\n".join(sorted(lines, reverse=True)) + "\n")  # create comes before add
    for program in ("iptables", "ip6tables"):
        rules = [line for line in recorded(recording, f"{program}-ipvs.txt").splitlines() if " -m ipvs " not in line]
        succeed(box, f"{program}-restore", "--noflush", input="\n".join(rules) + "\n")


def make_iptables(box, recording):
    done = box.proxy("apply", "-f", boxes.objects_of(recording), "--config", box.file("config.yaml", boxes.config_of(recording)))
    assert done.returncode == 0, done.stderr


def make_userspace(box):
    """What a daemon of mode userspace would have left."""
    path = box.file("web.yaml", WEB)
    for family, program in boxes.FAMILIES.items():
        rules = box.proxy("render", "-f", path, "--proxy-mode=userspace", f"--family={family}")
        assert rules.returncode == 0, rules.stderr
        lines = [line for line in rules.stdout.splitlines() if not line.startswith("#")]
        succeed(box, f"{program}-restore", "--noflush", input="\n".join(lines) + "\n")


def has_userspace(box):
    return any("KUBE-PORTALS" in line or "KUBE-NODEPORT-" in line for family in boxes.FAMILIES for line in box.rules(family))


def without(lines, removed):
    """The lines with each of `removed` taken out once; it must be there."""
    rest = list(lines)
    for line in removed:
        rest.remove(line)
    return rest


def complaints(done):
    """What it says, but for the mode that it would have run in."""
    return [line for line in done.stderr.splitlines() if "Using iptables proxy" not in line]


@pytest.mark.parametrize("recording", ["load-balancer-source-ranges", "external-traffic-local", "udp-sctp", "dual-stack"])
def test_cleanup_removes_everything_of_ours_but_what_stays(box, recording):
    make_foreign(box)
    foreign = dumps(box)
    make_iptables(box, recording)
    make_ipvs(box, recording)
    make_ipvs(box, recording)  # its jumps are now there twice
    make_userspace(box)
    make_userspace(box)
    succeed(box, "nft", OUR_TABLES)
    before = dumps(box)
    assert all(len(before[what]) > len(foreign[what]) for what in foreign)
    for _ in range(2):
        done = box.proxy("--cleanup")
        assert (done.returncode, complaints(done)) == (0, [])
        after = dumps(box)
        assert {what: without(after[what], STAYS[what]) for what in after} == foreign
    assert box.run("cat", "/proc/sys/net/ipv4/conf/all/route_localnet").stdout.strip() == "1"
    # iptables takes a counter only if it is there.
    for counter in ("ct_state_invalid_dropped_pkts", "localhost_nps_accepted_pkts"):
        succeed(box, "iptables", "-A", "DOCKER-USER", "-m", "nfacct", "--nfacct-name", counter)


def test_cleanup_of_a_node_that_has_nothing_changes_nothing(box):
    make_foreign(box)
    before = dumps(box)
    done = box.proxy("--cleanup")
    assert (done.returncode, complaints(done)) == (0, [])
    assert dumps(box) == before


def test_a_set_that_somebody_uses_stays_and_is_told_once(box):
    make_ipvs(box, "dual-stack")
    succeed(box, "iptables", "-A", "OUTPUT", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "ACCEPT")
    done = box.proxy("--cleanup")
    assert done.returncode == 1
    assert done.stderr.count("destroy ipset KUBE-CLUSTER-IP: still used by 1 rules") == 1
    assert done.stderr.splitlines()[-1].endswith('"command failed" err="encountered an error while tearing down rules"')
    assert succeed(box, "ipset", "list", "-name").split() == ["KUBE-CLUSTER-IP"]
    assert [line for line in box.rules() if line.startswith(":KUBE")] == []
    succeed(box, "iptables", "-F", "OUTPUT")
    wait_until(lambda: box.proxy("--cleanup").returncode == 0, "the set to go with the rule")
    assert succeed(box, "ipset", "list", "-name") == ""


def test_a_chain_that_somebody_jumps_to_is_emptied_and_told(box):
    make_iptables(box, "seed-yaobank")
    jump = "-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ"
    succeed(box, "iptables-restore", "--noflush", input=f"*nat\n:CNI-HOSTPORT-SETMARK - [0:0]\n{jump}\nCOMMIT\n")
    done = box.proxy("--cleanup")
    assert done.returncode == 1
    assert "chains of table nat that rules of somebody else jump to" in done.stderr
    assert jump in done.stderr
    ours = [line for line in box.rules() if "KUBE-" in line and line not in STAYS["iptables"]]
    assert ours == [":KUBE-MARK-MASQ -", jump]


def test_cleanup_without_root_fails_and_says_why(box):
    os.chmod(box.folder, 0o755)
    done = box.run("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", boxes.BINARY, "--cleanup")
    assert done.returncode == 1
    assert "run as root, or with CAP_NET_ADMIN" in done.stderr


def test_cleanup_without_iptables_removes_the_rest(box):
    succeed(box, "nft", OUR_TABLES)
    succeed(box, "ipset", "create", "KUBE-6-LOAD-BALANCER-SOURCE-CID", "hash:ip")
    done = box.run("/usr/bin/env", "PATH=/nonexistent", boxes.BINARY, "--cleanup")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("No iptables support for family") == 2
    assert (succeed(box, "nft", "list", "ruleset"), succeed(box, "ipset", "save")) == ("", "")


@pytest.fixture
def daemon(box):
    """A daemon of mode iptables that has synced, with a Service."""
    made = Daemon(box)
    try:
        made.write("web.yaml", WEB)
        made.wait_for_rule("10.96.0.10/32")
        made.wait_for_log('ipFamily="IPv6" full=true')
        yield made
    finally:
        made.stop(signal.SIGKILL)


def test_mode_iptables_removes_what_modes_nftables_and_userspace_have_left(box, request):
    make_foreign(box)
    foreign = dumps(box)
    make_ipvs(box, "dual-stack")
    sets = dumps(box)["ipset"]
    succeed(box, "nft", "add table ip kube-proxy; add table ip6 kube-proxy")
    make_userspace(box)
    request.getfixturevalue("daemon")
    ours = {"table ip kube-proxy", "table ip6 kube-proxy"}
    wait_until(lambda: ours.isdisjoint(succeed(box, "nft", "list", "tables").splitlines()), "the tables go, a moment after the first sync")
    wait_until(lambda: not has_userspace(box), "the rules of mode userspace go, too")
    after = dumps(box)
    assert after["nft"] == foreign["nft"]
    # Parity: modes iptables and ipvs leave each other's state alone.
    assert after["ipset"] == sets
    assert ":KUBE-IPVS-FILTER -" in after["iptables"]


@pytest.fixture
def nftables_daemon(box):
    """The same of mode nftables."""
    made = Daemon(box, config=NFTABLES)
    try:
        made.write("web.yaml", WEB)
        wait_until(lambda: "10.96.0.10" in table(box), f"the Service in the table; log:\n{made.log()}")
        made.wait_for_log('"Synced rules" ipFamily="IPv6"')
        yield made
    finally:
        made.stop(signal.SIGKILL)


def test_cleanup_removes_the_tables_of_mode_nftables_whole(box, request):
    make_foreign(box)
    foreign = dumps(box)
    request.getfixturevalue("nftables_daemon").stop()
    assert {f"table {family} kube-proxy" for family in ("ip", "ip6")} <= set(succeed(box, "nft", "list", "tables").splitlines())
    for _ in range(2):
        done = box.proxy("--cleanup")
        assert (done.returncode, complaints(done)) == (0, [])
        assert dumps(box) == foreign


def test_mode_iptables_and_mode_nftables_remove_each_others_rules(box, request):
    """Each after its first sync: nothing is missing in between, and what others have stays."""
    make_foreign(box)
    foreign = dumps(box)
    request.getfixturevalue("daemon").stop()
    make_userspace(box)
    nftables = request.getfixturevalue("nftables_daemon")

    def only(mode):
        now = dumps(box)
        ours = {"iptables": any(line.startswith(":KUBE-SERVICES") for line in now["iptables"] + now["ip6tables"]),
                "nftables": any(" kube-proxy {" in line for line in now["nft"] if line not in foreign["nft"])}
        return [name for name, there in ours.items() if there] == [mode]

    wait_until(lambda: only("nftables") and not has_userspace(box), f"the rules of the other modes to go; log:\n{nftables.log()}")
    nftables.stop()
    again = Daemon(box)
    try:
        again.wait_for_rule("10.96.0.10/32")
        wait_until(lambda: only("iptables"), f"the tables of mode nftables to go; log:\n{again.log()}")
    finally:
        again.stop(signal.SIGKILL)
    after = dumps(box)
    assert after["nft"] == foreign["nft"]
    assert after["ipset"] == foreign["ipset"]
    assert [line for line in foreign["iptables"] if line not in after["iptables"]] == []


@pytest.fixture
def userspace_daemon(box):
    """The same of mode userspace."""
    made = Daemon(box, config=CONFIG + "mode: userspace\n")
    try:
        made.write("web.yaml", WEB)
        made.wait_for_rule("KUBE-PORTALS-CONTAINER", "10.96.0.10/32")
        made.wait_for_log('"Synced rules" ipFamily="IPv6"')
        yield made
    finally:
        made.stop(signal.SIGKILL)


def test_mode_userspace_removes_what_all_others_have_left(box, request):
    make_foreign(box)
    foreign = dumps(box)
    make_iptables(box, "dual-stack")
    make_ipvs(box, "dual-stack")
    succeed(box, "nft", "add table ip kube-proxy; add table ip6 kube-proxy")
    proxy = request.getfixturevalue("userspace_daemon")

    def others_are_gone():
        now = dumps(box)
        ours = [line for family in ("iptables", "ip6tables") for line in without(now[family], STAYS[family])
                if line not in foreign[family] and "KUBE-PORTALS" not in line and "KUBE-NODEPORT-" not in line]
        return (ours, now["ipset"], now["nft"]) == ([], foreign["ipset"], foreign["nft"])

    wait_until(others_are_gone, f"the state of the other modes to go; log:\n{proxy.log()}")
    assert proxy.stop() == -signal.SIGTERM
    assert has_userspace(box)
    assert box.proxy("--cleanup").returncode == 0
    after = dumps(box)
    assert {what: without(after[what], STAYS[what]) for what in after} == foreign


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("mode", ["daemon", "nftables_daemon", "userspace_daemon"], ids=["iptables", "nftables", "userspace"])
def test_a_signal_ends_the_daemon_at_once_and_everything_stays(box, request, mode, number):
    proxy = request.getfixturevalue(mode)
    before = dumps(box)
    assert proxy.stop(number) == -number
    assert dumps(box) == before
