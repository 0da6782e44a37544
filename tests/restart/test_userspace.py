"""Connections end in the proxy in mode userspace, so they end with it. Its rules stay, and lead to the next one."""

import lab
import pytest
from test_restart import RESTARTS, end_at_any_moment, rounds, traffic  # noqa: F401

SILENCE = ("timeout", "timed out")


@pytest.fixture
def mode(variant):
    return lab.Mode("userspace", variant)


def over_tcp(records):
    return [one for one in records if " tcp " in one.name]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_writes_nothing_and_nobody_hangs(scene, traffic, end):  # noqa: F811
    """The proxy finds its ports in the rules. Without it clients are refused, and who was connected is told."""
    before = scene.kernel.look()
    for _ in range(RESTARTS):
        getattr(scene.daemon, end)()
        scene.start()
        traffic.wait_answers()
        assert scene.written() == 0, "rules were written anew"
    assert scene.kernel.untouched(before), "a rule was written anew"
    for one in over_tcp(traffic.report()):
        assert one.failed > 0 or one.name.startswith("probes"), f"no connection ended: {one}"
        assert not [what for _, _, what in one.failures if what.endswith(SILENCE)], str(one)


def test_ended_at_any_moment_it_heals(scene, traffic, seed, rounds):  # noqa: F811
    end_at_any_moment(scene, seed, rounds)
    traffic.wait_answers()


@pytest.mark.parametrize("other", ["iptables", "nftables"])
def test_a_switch_to_this_mode_is_not_noticed_over_tcp(scene, traffic, other):  # noqa: F811
    """What the other mode has led to pods stays with them. UDP is led anew, as its clients may never end."""
    ours = scene.mode
    left = scene.switch(lab.Mode(other, ours.variant))
    lab.wait_for(left.is_empty, "what mode userspace has left goes")
    traffic.wait_answers()
    before = over_tcp(traffic.report())
    left = scene.switch(ours)
    lab.wait_for(left.is_empty, f"what mode {other} has left goes: {scene.daemon.log_text()[-2000:]}")
    traffic.wait_answers()
    for then, now in zip(before, over_tcp(traffic.report()), strict=True):
        assert (now.failed, now.moves) == (then.failed, then.moves), str(now)
