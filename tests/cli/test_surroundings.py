"""What the program inherits from whoever started it, what it hands on to the programs it starts, and what it does when they
are slow, fail, or never end."""

import os
import pathlib
import signal
import subprocess
import time

import pytest
import sandbox as boxes
from test_bad_input import CONFIG, GOOD, GOOD_IP, as_yaml, endpoint_slice, service, wait_until


@pytest.fixture
def box():
    with boxes.sandbox() as made:
        yield made


def wrap(box, program, lines):
    """Puts a script in front of an iptables program; in it, "$@" are the arguments and `real` runs the program itself."""
    path = pathlib.Path(box.programs) / program
    target = os.readlink(path) if path.is_symlink() else f"/usr/sbin/{program}"
    path.unlink()
    path.write_text(f'#!/bin/bash\nreal() {{ exec -a {program} {target} "$@"; }}\n{lines}\n')
    path.chmod(0o755)


@pytest.fixture
def daemon(box):
    """Starts the daemon on the folder box.folder/manifests; returns the process."""
    started = []

    def start(config=CONFIG, **options):
        folder = pathlib.Path(box.folder) / "manifests"
        folder.mkdir(exist_ok=True)
        path = box.file("daemon.yaml", config)
        with open(pathlib.Path(box.folder) / "log", "w", encoding="utf8") as log:
            started.append(subprocess.Popen(["ip", "netns", "exec", box.ns.name, boxes.BINARY, f"--config={path}", f"--manifests={folder}"],
                                            env=box.environment(), stdin=subprocess.DEVNULL, stderr=log, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait(10)


def save(box, name, objects):
    scratch = pathlib.Path(box.folder) / "manifests" / ".new"
    scratch.write_text(as_yaml(objects))
    scratch.rename(scratch.with_name(name))


def wait_for_rule(box, part, seconds=10):
    wait_until(lambda: part in box.save(), lambda: part, seconds)


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


def test_programs_inherit_three_descriptors_and_no_more(box, daemon):
    seen = pathlib.Path(box.folder) / "descriptors"
    # Descriptor 255 is where bash reads its script.
    wrap(box, "iptables-restore", f'(cd /proc/$$/fd; echo *) > {seen}.new; mv {seen}.new {seen}; real "$@"')
    daemon()
    wait_until(seen.exists, lambda: "the first sync")
    time.sleep(0.2)
    save(box, "good.yaml", GOOD)
    wait_for_rule(box, f"-A KUBE-SERVICES -d {GOOD_IP}/32")
    assert set(seen.read_text().split()) - {"255"} == {"0", "1", "2"}


def test_the_longest_period_is_not_a_busy_loop(box, daemon):
    calls = pathlib.Path(box.folder) / "calls"
    wrap(box, "iptables", f'echo "$*" >> {calls}; real "$@"')
    daemon(CONFIG.replace("syncPeriod: 1s", "syncPeriod: 2562047h"))
    wait_for_rule(box, "KUBE-SERVICES")
    before = len(calls.read_text().splitlines())
    time.sleep(1)
    assert len(calls.read_text().splitlines()) - before < 10


def test_a_configuration_written_while_the_daemon_starts_ends_it(box, daemon):
    starting = pathlib.Path(box.folder) / "starting"
    wrap(box, "iptables", f'touch {starting}; sleep 0.5; real "$@"')
    process = daemon()
    wait_until(starting.exists, lambda: "the look at iptables")
    with open(pathlib.Path(box.folder) / "daemon.yaml", "a", encoding="utf8") as file:
        file.write("clusterCIDR: 10.9.0.0/16\n")
    assert process.wait(3) == 1


DUAL = {"clusterIPs": ["10.96.0.20", "fd00:96::20"], "ipFamilies": ["IPv4", "IPv6"]}


def test_a_family_that_hangs_does_not_hold_up_the_other(box, daemon):
    daemon()
    wait_for_rule(box, "KUBE-SERVICES")
    wrap(box, "ip6tables-restore", 'sleep 4; real "$@"')
    save(box, "dual.yaml", [service("dual", "10.96.0.20", **DUAL)])
    wait_for_rule(box, "-d 10.96.0.20/32")
    save(box, "good.yaml", GOOD)
    wait_for_rule(box, f"-A KUBE-SERVICES -d {GOOD_IP}/32", seconds=2)


def test_the_daemon_ends_at_once_while_a_program_runs(box, daemon):
    wrap(box, "iptables-restore", 'sleep 4; real "$@"')
    process = daemon()
    log = pathlib.Path(box.folder) / "log"
    wait_until(lambda: "Starting the first sync" in log.read_text(), lambda: "the first sync")
    time.sleep(0.2)
    with open(pathlib.Path(box.folder) / "daemon.yaml", "a", encoding="utf8") as file:
        file.write("\n")
    assert process.wait(2) == 1


def test_a_slow_program_sees_the_newest_state_next(box, daemon):
    wrap(box, "iptables-restore", 'echo >> "$(dirname "$0")/../restores"; sleep 0.3; real "$@"')
    daemon()
    wait_for_rule(box, "KUBE-SERVICES")
    restores = pathlib.Path(box.folder) / "restores"
    before = len(restores.read_text())
    for number in range(30):
        save(box, "web.yaml", [service(), endpoint_slice(addresses=[f"10.244.1.{number + 1}"])])
        time.sleep(0.01)
    wait_for_rule(box, "--to-destination 10.244.1.30:8080")
    assert len(restores.read_text()) - before <= 4, "changes during a sync are one change"


def test_a_shared_chain_that_somebody_emptied_is_filled_again(box, daemon):
    daemon()
    save(box, "good.yaml", GOOD)
    wait_for_rule(box, f"-A KUBE-SERVICES -d {GOOD_IP}/32")
    assert box.run("iptables", "-t", "nat", "-F", "KUBE-SERVICES").returncode == 0
    wait_for_rule(box, f"-A KUBE-SERVICES -d {GOOD_IP}/32")

