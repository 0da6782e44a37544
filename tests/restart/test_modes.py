"""A proxy that comes back in another mode: nobody notices, and what the old mode has left goes."""

import lab
from test_restart import traffic  # noqa: F401
from webload import undisturbed


def test_a_switch_of_modes_is_not_noticed(scene, traffic):  # noqa: F811
    """The old rules serve until the new ones are there."""
    first, other = scene.mode, lab.Mode("nftables", scene.mode.variant)
    for mode in (other, first, other, first):
        left = scene.switch(mode)
        lab.wait_for(left.is_empty, f"what was there before mode {mode.name} goes: {scene.daemon.log_text()[-2000:]}")
        traffic.wait_answers()
        undisturbed(traffic.report())
