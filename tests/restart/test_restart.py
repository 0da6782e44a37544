"""A proxy that ends and comes back, whatever the way, while traffic flows: nobody notices."""

import os
import pathlib
import random
import time

import lab
import pytest
from webload import undisturbed, web_flows

RESTARTS = 3
# Enough for the program that writes the rules, or in mode nftables the kernel, to be at work for a while.
MANY = {("iptables", "nft"): 600, ("iptables", "legacy"): 1500, ("nftables", "nft"): 3000, ("ipvs", "nft"): 300,
        ("userspace", "nft"): 600, ("userspace", "legacy"): 1500}


@pytest.fixture
def traffic(scene):
    with lab.Traffic(scene.cluster, web_flows(scene.cluster)) as made:
        made.wait_answers()
        yield made


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_is_not_noticed_and_writes_nothing(scene, traffic, end):
    before, entries = scene.kernel.look(), scene.stream_entries()
    assert len(entries) == sum(flow.kind == "stream" for flow in web_flows(scene.cluster))
    for _ in range(RESTARTS):
        getattr(scene.daemon, end)()
        traffic.wait_answers()
        scene.start()
        traffic.wait_answers()
        assert scene.written() == 0, "rules were written anew"
    undisturbed(traffic.report())
    assert scene.kernel.untouched(before), "a rule was written anew"
    assert scene.stream_entries() == entries


def many(scene):
    return MANY[scene.mode.name, scene.mode.variant]


def change_and_end(scene, choose, turn):
    """Gives the proxy much to write, and ends it at a random moment: alone, or with the programs that it runs."""
    scene.filler(many(scene), turn)
    if choose.random() < 0.7 and scene.mode.name in ("iptables", "userspace"):
        lab.wait_for(scene.daemon.children, "a program is at work", 60, every=0.001)
    time.sleep(choose.random() * choose.choice((0.02, 0.2, 1.0)))
    return end(scene, choose.choice((scene.daemon.stop, scene.daemon.kill, scene.daemon.kill_all)))


def end(scene, how):
    """Ends the proxy in that way, and returns the programs that may have outlived it."""
    left = scene.daemon.children()
    how()
    print(how.__name__, "while it ran", [program(pid) for pid in left])
    return left


def wait_healed(scene, left):
    """Waits until the programs that outlived a proxy have ended, and the rules are those of a fresh apply."""
    lab.wait_for(lambda: not any(map(alive, left)), "programs of a dead proxy end", 60)
    try:
        lab.wait_for(lambda: not scene.kernel.differences(), "the rules are those of a fresh apply", 120, every=0.5)
    except lab.NotInTime as error:
        raise AssertionError(f"{error}\n" + "\n".join(scene.kernel.differences())[:3000]) from None


def alive(pid):
    return os.path.exists(f"/proc/{pid}")


def program(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return "one that has ended"


@pytest.fixture
def rounds(request):
    return request.config.getoption("--rounds")


def end_at_any_moment(scene, seed, rounds):
    """Ends and starts the proxy so many times, and waits until all is well again."""
    choose = random.Random(seed)
    left = []
    for turn in range(rounds):
        left += change_and_end(scene, choose, turn)
        if choose.random() < 0.5:  # what the dead one was about to write is out of date already
            scene.filler(many(scene), turn + 1)
        scene.daemon.start()
    wait_healed(scene, left)


def test_ended_at_any_moment_it_heals(scene, traffic, seed, rounds):
    end_at_any_moment(scene, seed, rounds)
    traffic.wait_answers()
    undisturbed(traffic.report())
