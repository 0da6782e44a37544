"""packaging/iptables-select, with both variants of iptables in a network namespace, on a copy of this machine's files."""

import subprocess

import pytest
import roots

SELECT = roots.REPOSITORY / "packaging" / "iptables-select"
HINT = "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n"


@pytest.fixture
def node(tmp_path):
    roots.need_root()
    roots.need(unshare="util-linux", iptables_nft="iptables", iptables_legacy="iptables", update_alternatives="dpkg")
    made = roots.Root(tmp_path)
    made.copy(SELECT, "/usr/sbin/iptables-select")
    made.run("iptables-select", "--install")
    assert pointed_at(made) == "iptables-first-call"
    yield made
    made.close()


def pointed_at(node):
    """The program behind the name iptables, checked to be of the same kind for all names."""
    names = {"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"}
    kinds = {name: node.run("readlink", "-f", f"/etc/alternatives/{name}").strip().rpartition("/")[2] for name in names}
    assert len(set(kinds.values())) == 1, kinds
    return kinds["iptables"]


def variant(node):
    """What a call answers with: nft or legacy."""
    return {"nf_tables": "nft", "legacy": "legacy"}[node.run("iptables", "--version").strip().rpartition("(")[2].rstrip(")")]


def restore(node, kind, text, family="iptables"):
    # The lock in a place that stays writable, also when the rest is not.
    node.run("env", "XTABLES_LOCKFILE=/tmp/lock", f"{family}-{kind}-restore", "--noflush", input=text)


def rules(count):
    return "*filter\n" + "-A INPUT -s 192.0.2.1/32 -j ACCEPT\n" * count + "COMMIT\n"


def read_only(node, *folders):
    for folder in ("", *folders):
        node.outside("mount", "-o", "remount,bind,ro", f"{node.path}{folder}")


def test_without_any_rule_it_is_nft(node):
    assert variant(node) == "nft"
    assert pointed_at(node) == "xtables-nft-multi"


@pytest.mark.parametrize("family", ["iptables", "ip6tables"])
def test_a_hint_in_legacy_decides_for_both_families(node, family):
    restore(node, "legacy", HINT, family)
    assert variant(node) == "legacy"
    assert pointed_at(node) == "xtables-legacy-multi"


def test_the_older_hint_counts_too(node):
    restore(node, "legacy", HINT.replace("IPTABLES-HINT", "KUBELET-CANARY"))
    assert variant(node) == "legacy"


def test_a_hint_outside_mangle_is_none(node):
    restore(node, "legacy", HINT.replace("mangle", "nat"))
    assert variant(node) == "nft"


def test_a_hint_counts_more_than_rules(node):
    restore(node, "legacy", rules(5))
    restore(node, "nft", HINT)
    assert variant(node) == "nft"


@pytest.mark.parametrize(("nft", "legacy", "chosen"), [(0, 1, "legacy"), (2, 1, "nft"), (1, 1, "nft"), (1, 3, "legacy")])
@pytest.mark.parametrize("hints", [[], ["nft", "legacy"]])
def test_without_one_clear_hint_more_rules_win(node, nft, legacy, chosen, hints):
    restore(node, "nft", rules(nft))
    restore(node, "legacy", rules(legacy))
    for kind in hints:
        restore(node, kind, HINT)
    assert variant(node) == chosen


def test_looking_makes_no_table(node):
    variant(node)
    assert node.run("sh", "-c", "cat /proc/net/ip_tables_names /proc/net/ip6_tables_names 2>/dev/null || true") == ""


def test_arguments_input_and_exit_status_pass_through(node):
    read_only(node)
    node.run("iptables-restore", "--noflush", input="*filter\n-A INPUT -m comment --comment \"two  words\" -j ACCEPT\nCOMMIT\n")
    assert '--comment "two  words"' in node.run("iptables-save", "-t", "filter")
    assert node.try_run("iptables", "-C", "INPUT", "-j", "DROP").returncode == 1
    assert node.try_run("iptables", "--no-such-flag").returncode == 2


def test_the_choice_stays_when_the_node_changes(node):
    assert variant(node) == "nft"
    restore(node, "legacy", HINT)
    assert variant(node) == "nft"


def test_a_read_only_root_keeps_the_choice_too(node):
    read_only(node, "/run")  # in a container /run is part of it
    assert variant(node) == "nft"
    restore(node, "legacy", HINT)
    assert variant(node) == "nft"
    assert pointed_at(node) == "iptables-first-call"


def test_with_no_place_to_write_it_still_answers(node):
    restore(node, "legacy", HINT)
    read_only(node, "/run", "/dev/shm")
    assert variant(node) == "legacy"
    assert variant(node) == "legacy"
    assert pointed_at(node) == "iptables-first-call"


def test_many_first_calls_at_once_agree(node):
    restore(node, "legacy", HINT)
    for _ in range(5):
        for family in ("iptables", "ip6tables"):
            node.run("update-alternatives", "--auto", family)
        node.run("rm", "-f", "/run/iptables-select")
        assert pointed_at(node) == "iptables-first-call"
        calls = [subprocess.Popen(node.command(name, "--version"), stdout=subprocess.PIPE, text=True)
                 for name in ["iptables", "ip6tables"] * 6]
        answers = {call.communicate(timeout=60)[0].rpartition("(")[2].strip() for call in calls}
        assert answers == {"legacy)"}
        assert pointed_at(node) == "xtables-legacy-multi"


def test_under_its_own_name_it_explains_itself(node):
    done = node.try_run("iptables-select")
    assert done.returncode == 2
    assert "usage" in done.stderr
