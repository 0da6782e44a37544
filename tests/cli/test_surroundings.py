"""What the program inherits from whoever started it, what it hands on to the programs it starts, and what it does when they
are slow, fail, or never end."""

import os
import pathlib
import signal
import time

import pytest
import sandbox as boxes
from manifest_daemon import CONFIG, GOOD, GOOD_IP, Daemon, as_yaml, endpoint_slice, service

NO_PERIOD = CONFIG.replace("syncPeriod: 1s", "syncPeriod: 2562047h")
GOOD_RULE = f"-A KUBE-SERVICES -d {GOOD_IP}/32"


@pytest.fixture
def box():
    with boxes.sandbox() as made:
        yield made


def wrap(box, program, lines):
    """Puts a script in front of an iptables program; in it, "$@" are the arguments and `real` runs the program itself."""
    path = pathlib.Path(box.programs) / program
    target = os.readlink(path) if path.is_symlink() else f"/usr/sbin/{program}"
    scratch = path.with_suffix(".new")
    scratch.write_text(f'#!/bin/bash\nreal() {{ exec -a {program} {target} "$@"; }}\n{lines}\n')
    scratch.chmod(0o755)
    scratch.rename(path)  # a daemon may be about to run it


class Held:
    """An iptables program that does not go on while it is held."""

    def __init__(self, box, program):
        self._hold, self._runs = (pathlib.Path(box.folder) / f"{program}-{word}" for word in ("hold", "runs"))
        self._hold.touch()
        # One that outlives its daemon ends with the folder.
        wrap(box, program, f'echo >> {self._runs}; while [ -e {self._hold} ]; do sleep 0.02; done; real "$@"')

    def runs(self):
        """How often it was started."""
        return len(self._runs.read_text()) if self._runs.exists() else 0

    def release(self):
        self._hold.unlink()


@pytest.fixture
def start(box):
    """Starts a daemon."""
    started = []

    def one(config=CONFIG):
        started.append(Daemon(box, config))
        return started[-1]

    yield one
    for daemon in started:
        daemon.kill()


def test_a_failing_program_is_noticed(box):
    wrap(box, "iptables-restore", "cat >/dev/null; echo told to fail >&2; exit 1")
    done = box.proxy("apply", "-f", box.file("good.yaml", as_yaml(GOOD)), "--family=ipv4")
    assert done.returncode == 1
    assert "iptables-restore (exit status 1): told to fail" in done.stderr


def test_a_failing_program_is_noticed_even_if_nobody_waits_for_children(box):
    wrap(box, "iptables-restore", "cat >/dev/null; echo told to fail >&2; exit 1")
    done = box.proxy("apply", "-f", box.file("good.yaml", as_yaml(GOOD)), "--family=ipv4",
                     preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.returncode == 1


def test_a_program_that_stops_reading_is_an_error_not_the_end(box):
    wrap(box, "iptables-restore", "exec <&-; echo read nothing >&2; exit 2")
    many = [service(f"s{i}", f"10.97.{i // 200}.{i % 200}") for i in range(2000)]
    done = box.proxy("apply", "-f", box.file("many.yaml", as_yaml(many)), "--family=ipv4")
    assert done.returncode == 1
    assert "iptables-restore (exit status 2): read nothing" in done.stderr


def test_programs_inherit_three_descriptors_and_no_more(box, start):
    seen = pathlib.Path(box.folder) / "descriptors"
    # Descriptor 255 is where bash reads its script.
    wrap(box, "iptables-restore", f'(cd /proc/$$/fd; echo *) > {seen}.new; mv {seen}.new {seen}; real "$@"')
    daemon = start(NO_PERIOD)
    daemon.wait_for_rule("KUBE-SERVICES")
    seen.unlink()  # what counts is the daemon that has everything open
    daemon.save("good.yaml", as_yaml(GOOD))
    daemon.wait_for_rule(GOOD_RULE)
    assert set(seen.read_text().split()) - {"255"} == {"0", "1", "2"}


def test_the_longest_period_is_not_a_busy_loop(box, start):
    calls = pathlib.Path(box.folder) / "calls"
    wrap(box, "iptables", f'echo "$*" >> {calls}; real "$@"')
    start(NO_PERIOD).wait_for_rule("KUBE-SERVICES")
    before = len(calls.read_text().splitlines())
    time.sleep(1)  # that nothing happens cannot be waited for; on a slow machine a busy loop gets less far
    assert len(calls.read_text().splitlines()) - before < 10


def test_a_configuration_written_while_the_daemon_starts_ends_it(box, start):
    held = Held(box, "iptables")
    daemon = start()
    daemon.wait(held.runs, "the look at iptables")
    with open(daemon.config, "a", encoding="utf8") as file:
        file.write("clusterCIDR: 10.9.0.0/16\n")
    held.release()
    assert daemon.wait_end() == 1


DUAL = {"clusterIPs": ["10.96.0.20", "fd00:96::20"], "ipFamilies": ["IPv4", "IPv6"]}


def test_a_family_that_hangs_does_not_hold_up_the_other(box, start):
    daemon = start()
    daemon.wait_for_rule("KUBE-SERVICES")
    held = Held(box, "ip6tables-restore")
    daemon.save("dual.yaml", as_yaml([service("dual", "10.96.0.20", **DUAL)]))
    daemon.wait(held.runs, "ip6tables-restore")
    daemon.wait_for_rule("-d 10.96.0.20/32")
    daemon.save("good.yaml", as_yaml(GOOD))
    daemon.wait_for_rule(GOOD_RULE)
    held.release()
    daemon.wait(lambda: "-d fd00:96::20/128" in box.save("ipv6"), "the rules of IPv6, after all")


def test_the_daemon_ends_at_once_while_a_program_runs(box, start):
    held = Held(box, "iptables-restore")
    daemon = start()
    daemon.wait(held.runs, "the first sync")
    with open(daemon.config, "a", encoding="utf8") as file:
        file.write("\n")
    assert daemon.wait_end() == 1


def test_a_slow_program_sees_the_newest_state_next(box, start):
    daemon = start(NO_PERIOD)
    daemon.wait_for_rule("KUBE-SERVICES")
    held = Held(box, "iptables-restore")
    for number in range(30):
        daemon.save("web.yaml", as_yaml([service(), endpoint_slice(addresses=[f"10.244.1.{number + 1}"])]))
        daemon.wait(held.runs, "the first of these syncs")
    daemon.save("broken.yaml", "[")
    daemon.wait_for_log("broken.yaml")  # then it has read all the others
    held.release()
    daemon.wait_for_rule("--to-destination 10.244.1.30:8080")
    assert held.runs() == 2, "changes during a sync are one change"


def test_a_shared_chain_that_somebody_emptied_is_filled_again(box, start):
    daemon = start()
    daemon.save("good.yaml", as_yaml(GOOD))
    daemon.wait_for_rule(GOOD_RULE)
    assert box.run("iptables", "-t", "nat", "-F", "KUBE-SERVICES").returncode == 0
    daemon.wait_for_rule(GOOD_RULE)


def test_no_inotify_instance_left_is_told_with_its_limit(box):
    """In a user namespace of its own, so that nobody else runs short."""
    front = ["unshare", "--user", "--map-root-user", "sh", "-c", 'echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"', "sh"]
    if box.run(*front, "true").returncode != 0:
        pytest.skip("needs user namespaces")
    daemon = Daemon(box, front=front)
    assert daemon.wait_end() == 1
    assert "no inotify instance is left for this user, user.max_inotify_instances is 0" in daemon.log()
