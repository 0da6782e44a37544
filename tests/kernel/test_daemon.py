"""The daemon on the real kernel: following its manifests, coming back, and going on when something fails."""

import os
import pathlib
import random
import signal
import subprocess
import time

import pytest
import sandbox as boxes
from test_apply import WEB

CONFIG = """
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
hostnameOverride: node1
clusterCIDR: 10.244.0.0/16
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
iptables: {syncPeriod: 1s, minSyncPeriod: 1ms}
"""


def wait_until(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain: {what}")


class Daemon:
    def __init__(self, box, *flags, config=CONFIG):
        self.box = box
        self.manifests = pathlib.Path(box.folder) / "manifests"
        self.manifests.mkdir(exist_ok=True)
        self.log_path = pathlib.Path(box.folder) / "log"
        self.start(*flags, config=config)

    def start(self, *flags, config=CONFIG):
        config_file = self.box.file("config.yaml", config)
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.box.ns.name, boxes.BINARY, f"--config={config_file}", f"--manifests={self.manifests}", "-v=2", *flags],
            env=self.box.environment(), stderr=open(self.log_path, "a"), stdin=subprocess.DEVNULL)

    def log(self):
        return self.log_path.read_text()

    def write(self, name, text):
        """As editors do it: a new file, renamed into place."""
        scratch = self.manifests / f".{name}.new"
        scratch.write_text(text)
        scratch.rename(self.manifests / name)

    def has_rule(self, *parts, family="ipv4"):
        return any(all(part in line for part in parts) for line in self.box.rules(family))

    def wait_for_rule(self, *parts):
        wait_until(lambda: self.has_rule(*parts), f"a rule with {parts}; log:\n{self.log()}")

    def wait_for_log(self, text, count=1, seconds=20):
        wait_until(lambda: self.log().count(text) >= count, f"{count} log lines with {text!r}; log:\n{self.log()}", seconds)

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(10)


@pytest.fixture
def daemon(box):
    made = []

    def make(*flags, **options):
        made.append(Daemon(box, *flags, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop(signal.SIGKILL)


def test_a_saved_file_changes_the_rules(daemon):
    proxy = daemon()
    proxy.wait_for_log("Synced rules")
    proxy.write("web.yaml", WEB)
    proxy.wait_for_rule("KUBE-SERVICES", "10.96.0.10/32")
    proxy.write("web.yaml", WEB.replace("10.244.2.3", "10.244.2.77"))
    proxy.wait_for_rule("--to-destination 10.244.2.77:8080")
    assert not proxy.has_rule("10.244.2.3")
    (proxy.manifests / "web.yaml").unlink()
    wait_until(lambda: not proxy.has_rule("10.96.0.10/32"), "the Service to go")


def test_a_broken_file_is_told_and_changes_nothing(daemon):
    proxy = daemon()
    proxy.write("web.yaml", WEB)
    proxy.wait_for_rule("10.96.0.10/32")
    before = proxy.box.rules()
    proxy.write("web.yaml", WEB.replace("port: 80,", "port: 99999,"))
    proxy.wait_for_log("web.yaml:9: Service default/web: spec.ports[0].port")
    proxy.write("other.yaml", WEB.replace("web", "other").replace("10.96.0.10", "10.96.0.20").replace("30080", "30081"))
    proxy.wait_for_rule("10.96.0.20/32")
    after = proxy.box.rules()
    assert [line for line in before if line not in after] == []
    proxy.write("web.yaml", WEB.replace("10.96.0.10", "10.96.0.30"))
    proxy.wait_for_rule("10.96.0.30/32")


def test_a_restart_adopts_what_is_there_and_writes_nothing(daemon):
    proxy = daemon()
    proxy.write("web.yaml", WEB)
    proxy.wait_for_rule("10.96.0.10/32")
    proxy.wait_for_log('ipFamily="IPv6" full=true')
    assert proxy.stop() == -signal.SIGTERM
    before = proxy.box.rules()
    assert any("10.96.0.10/32" in line for line in before), "rules stay when the daemon goes"
    proxy.log_path.write_text("")
    proxy.start()
    proxy.wait_for_log('"Synced rules"', count=2)
    assert proxy.log().count("chains=0 rules=0") == 2, proxy.log()
    assert proxy.box.rules() == before


def test_flushed_rules_come_back(daemon):
    proxy = daemon()
    proxy.write("web.yaml", WEB)
    proxy.wait_for_rule("10.96.0.10/32")
    before = proxy.box.rules()
    for table in ("mangle", "nat", "filter"):
        assert proxy.box.run("iptables", "-t", table, "-F").returncode == 0
        assert proxy.box.run("iptables", "-t", table, "-X").returncode == 0
    wait_until(lambda: sorted(proxy.box.rules()) == sorted(before), "the rules to come back")


DAMAGE = {
    "nat-table": ["-t nat -F", "-t nat -X"],
    "rules-of-nat": ["-t nat -F"],
    "rules-of-filter": ["-F"],
    "a-hook": ["-t nat -F PREROUTING"],
    "one-chain": ["-t nat -F KUBE-POSTROUTING"],
}


@pytest.mark.parametrize("commands", DAMAGE.values(), ids=DAMAGE)
def test_damage_to_our_rules_is_noticed(daemon, commands):
    """Beyond the real one, which looks for the canary in the mangle table."""
    proxy = daemon()
    proxy.write("web.yaml", WEB)
    proxy.wait_for_rule("10.96.0.10/32")
    before = proxy.box.rules()
    for command in commands:
        proxy.box.run("iptables", *command.split())
    wait_until(lambda: sorted(proxy.box.rules()) == sorted(before), "the rules to come back")


def test_a_failing_restore_is_told_and_tried_again(daemon, box):
    real = pathlib.Path(box.programs) / "iptables-restore"
    target = os.readlink(real)
    real.unlink()
    real.write_text("#!/bin/sh\ncat >/dev/null\necho 'iptables-restore: line 5 failed' >&2\nexit 1\n")
    real.chmod(0o755)
    proxy = daemon()
    proxy.write("web.yaml", WEB)
    proxy.wait_for_log("Sync failed", count=2)
    assert "iptables-restore (exit status 1): iptables-restore: line 5 failed" in proxy.log()
    assert "\t5: :KUBE-" in proxy.log(), "the failing line is quoted"
    assert proxy.has_rule("10.96.0.10/32") is False
    assert proxy.has_rule("KUBE-SERVICES", family="ipv6"), "the other family goes on"
    real.unlink()
    real.symlink_to(target)
    proxy.wait_for_rule("10.96.0.10/32")
    proxy.wait_for_log("Sync works again")


def test_a_held_lock_is_told_in_one_line(box, variant):
    if variant == "nft":
        pytest.skip("the nf_tables variant takes no lock")
    web = box.file("web.yaml", WEB)
    script = f"mount -t tmpfs none /run && exec flock /run/xtables.lock {boxes.BINARY} apply -f {web} --family ipv4"
    environment = box.environment()
    del environment["XTABLES_LOCKFILE"]
    done = box.run("unshare", "-m", "sh", "-c", script, env=environment)
    assert done.returncode == 1
    assert "another program has held the lock /run/xtables.lock for 5 s; see who with `fuser /run/xtables.lock`" in done.stderr


def test_a_written_configuration_file_ends_the_daemon(daemon, box):
    proxy = daemon()
    proxy.wait_for_log("Synced rules")
    with open(pathlib.Path(box.folder) / "config.yaml", "a") as file:
        file.write("\n")
    assert proxy.process.wait(10) == 1
    assert "content of the proxy server's configuration file was updated" in proxy.log()


def test_init_only_sets_up_and_exits(box):
    (pathlib.Path(box.folder) / "manifests").mkdir()
    done = box.proxy(f"--config={box.file('config.yaml', CONFIG)}", f"--manifests={box.folder}/manifests", "--init-only")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("System initialized and --init-only specified") == 2
    assert box.run("cat", "/proc/sys/net/ipv4/conf/all/route_localnet").stdout.strip() == "1"
    assert "KUBE-SERVICES" not in box.save()


def service(name, ip, node_port):
    return WEB.replace("web", name).replace("10.96.0.10", ip).replace("nodePort: 30080", f"nodePort: {node_port}")


def test_a_history_of_200_saved_files_ends_where_one_apply_ends(daemon, box, variant):
    proxy = daemon()
    choose = random.Random(7)
    for step in range(200):
        name = f"s{choose.randrange(12)}"
        path = proxy.manifests / f"{name}.yaml"
        if choose.random() < 0.2:
            path.unlink(missing_ok=True)
            continue
        text = service(name, f"10.96.1.{choose.randrange(1, 30)}", 30100 + choose.randrange(20))
        endpoints = ", ".join(f"{{addresses: [10.244.{choose.randrange(1, 3)}.{choose.randrange(1, 50)}]}}" for _ in range(choose.randrange(0, 5)))
        text = text.replace("endpoints: [{addresses: [10.244.1.2]}, {addresses: [10.244.2.3]}]", f"endpoints: [{endpoints}]")
        if choose.random() < 0.3:
            text = text.replace("  type: NodePort", "  type: NodePort\n  sessionAffinity: ClientIP\n  externalTrafficPolicy: Local")
        proxy.write(f"{name}.yaml", text)
        if step % 10 == 0:
            time.sleep(0.05)
    with boxes.sandbox(variant) as fresh:
        done = fresh.proxy("apply", "-f", proxy.manifests, "--config", box.file("config.yaml.copy", CONFIG))
        assert done.returncode == 0, done.stderr
        wait_until(lambda: proxy.box.rules() == fresh.rules(), "the daemon to end where apply ends")
