"""Programs that the proxy runs in mode iptables, and that may outlive it."""

import os

import lab
from test_restart import end, traffic, wait_healed  # noqa: F401
from webload import undisturbed


class Late:
    """An iptables-restore that can be made to wait between reading its input and writing the rules."""

    def __init__(self, scene):
        self.hold, self.waits, self.release = (scene.cluster.state / f"restore-{word}" for word in ("hold", "waits", "release"))
        program = scene.mode.folder(scene.cluster.state) / "iptables-restore"
        real = os.readlink(program)
        program.unlink()
        program.write_text(f"""#!/bin/sh
if [ -e {self.hold} ]; then
  cat >{self.waits}.tmp && mv {self.waits}.tmp {self.waits}
  until [ -e {self.release} ]; do sleep 0.02; done
  exec {real} iptables-restore "$@" <{self.waits}
fi
exec {real} iptables-restore "$@"
""", encoding="utf-8")
        program.chmod(0o755)


def test_what_a_dead_proxy_still_writes_does_not_last(scene, traffic):  # noqa: F811
    """The program that a killed proxy was running may live on, and write after the next proxy has looked."""
    late = Late(scene)
    late.hold.touch()
    scene.filler(10, 0)
    lab.wait_for(late.waits.exists, "iptables-restore has its input")
    late.hold.unlink()
    left = end(scene, scene.daemon.kill)
    scene.filler(10, 1)
    scene.start()
    late.release.touch()
    wait_healed(scene, left)
    undisturbed(traffic.report())
