"""A proxy with many Services and nothing to do."""

import json
import os
import time

import fake_api
import lab
import sandbox
from api_source import ApiSource
from lab import objects, usage

SYNCED = '"Synced rules"'


def services(count, endpoints):
    made = []
    for number in range(count):
        name, low, high = f"web-{number}", number % 250 + 2, number // 250
        addresses = [f"10.244.{1 + one}.{low}" for one in range(endpoints)]
        made += [objects.service(name, f"10.97.{high}.{low}", [objects.port(80)]), objects.endpoint_slice(
            name, [objects.endpoint(address, "node2") for address in addresses], [objects.port(8080)])]
    return made


def api(cluster, held):
    return ApiSource(cluster, fake_api.FakeApi(cluster["node1"].netns, held))


def manifests(cluster, held):
    folder = lab.Folder(cluster.state / "manifests")
    (folder.folder / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": held}), encoding="utf-8")
    return folder


SOURCES = {"manifests": manifests, "api": api}


class Idle:
    """A proxy that has synced `count` Services and gone to rest."""

    def __init__(self, source, variant, count, endpoints, sync_period):
        self.cluster = lab.Cluster("kpi", nodes={"node1": "zone-a"}, pods={}, outsiders={})
        try:
            held = [*self.cluster.node_objects(), *services(count, endpoints)]
            periods = {"iptables": {"syncPeriod": sync_period, "minSyncPeriod": "1s"}}
            self.daemon = lab.Daemon(self.cluster, "node1", sandbox.BINARY, SOURCES[source](self.cluster, held),
                                     lab.Mode("iptables", variant), periods)
            lab.wait_for(lambda: self.daemon.log_text().count(SYNCED) >= 2, "both families have synced", 120, every=0.1)
            self._wait_rest()
        except BaseException:
            self.cluster.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()

    def memory_mb(self):
        return usage.memory_mb(self.daemon.pid)

    def wakeups(self, seconds):
        """How often each thread woke in that time; the first is the loop thread."""
        before = usage.wakeups(self.daemon.pid)
        time.sleep(seconds)
        after = usage.wakeups(self.daemon.pid)
        return [after[thread] - before.get(thread, 0) for thread in sorted(after)]

    def _wait_rest(self):
        """Waits until no thread was woken for a second."""
        lab.wait_for(lambda: not any(self.wakeups(1.0)), "the proxy comes to rest", 30)


def sanitized():
    """A build whose memory says nothing."""
    return bool(os.environ.get("KP_SANITIZE"))
