"""The daemon in mode nftables: what it keeps of its rights, how it takes over, what it mends and how it is told."""

import json
import os
import re

import pytest
import sandbox as boxes
from test_apply import WEB
from test_daemon import CONFIG, daemon, wait_until  # noqa: F401

NFTABLES = CONFIG.replace("iptables: {syncPeriod: 1s, minSyncPeriod: 1ms}", "mode: nftables")
WITH_SYNC_PERIOD = NFTABLES + "nftables: {syncPeriod: 30s}\n"
CIDR = "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: kubernetes}\nspec: {cidrs: [10.96.0.0/16]}\n"


def table(box, family="ip"):
    return box.run("nft", "list", "table", family, "kube-proxy").stdout


def started(daemon, *flags, config=NFTABLES):  # noqa: F811
    """One that has synced both families, with a Service."""
    proxy = daemon(*flags, config=config)
    proxy.write("web.yaml", WEB)
    wait_until(lambda: "10.96.0.10 . tcp . 80" in table(proxy.box), f"the Service in the table; log:\n{proxy.log()}")
    for family in ("IPv4", "IPv6"):
        proxy.wait_for_log(f'"Synced rules" ipFamily="{family}"')
    return proxy


def capabilities(proxy):
    return re.search(r'"Dropped privileges" capabilities="([A-Z_,]*)"', proxy.log()).group(1)


def page(box, path):
    script = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:10249{path}').read().decode(), end='')"
    return box.run("/usr/bin/python3", "-c", script).stdout


def test_it_follows_its_manifests_and_says_what_it_wrote(daemon):  # noqa: F811
    proxy = started(daemon)
    proxy.write("web.yaml", WEB.replace("10.244.2.3", "10.244.2.77"))
    wait_until(lambda: "10.244.2.77" in table(proxy.box), "the endpoint in the table")
    assert "10.244.2.3 " not in table(proxy.box)
    proxy.write("cidr.yaml", CIDR)
    wait_until(lambda: "10.96.0.0/16" in table(proxy.box), "the ServiceCIDR in the table")
    assert re.search(r'"Synced rules" ipFamily="IPv4" full=false chains=0 rules=0 elements=\d+ endpoints=', proxy.log()), proxy.log()


def test_it_needs_no_raw_sockets_and_no_programs(daemon, box):  # noqa: F811
    for family in ("iptables", "ip6tables"):
        for program in (family, f"{family}-save", f"{family}-restore"):
            os.unlink(os.path.join(box.programs, program))
            os.symlink("/bin/false", os.path.join(box.programs, program))
    proxy = started(daemon)
    assert capabilities(proxy) == "NET_BIND_SERVICE,NET_ADMIN"
    assert "iptables support" not in proxy.log()
    assert "Could not remove" not in proxy.log()


def test_a_restart_writes_nothing(daemon):  # noqa: F811
    proxy = started(daemon)
    proxy.stop()
    before = table(proxy.box)
    assert "10.96.0.10" in before, "rules stay when the daemon goes"
    proxy.log_path.write_text("")
    proxy.start(config=NFTABLES)
    proxy.wait_for_log('"Synced rules"', count=2)
    assert proxy.log().count("chains=0 rules=0 elements=0") == 2, proxy.log()
    assert table(proxy.box) == before


@pytest.mark.parametrize("deed", ["delete table ip kube-proxy", "flush chain ip kube-proxy services",
                                  "add element ip kube-proxy cluster-ips { 10.96.0.99 }", "flush ruleset"])
def test_what_others_do_is_mended_at_once(daemon, deed):  # noqa: F811
    proxy = started(daemon, config=WITH_SYNC_PERIOD)
    before = sorted(table(proxy.box).splitlines())
    assert proxy.box.run("nft", deed).returncode == 0
    proxy.wait_for_log('"Somebody else had changed our rules, wrote them anew" ipFamily="IPv4"')
    assert sorted(table(proxy.box).splitlines()) == before
    assert "timesInARow=1" in proxy.log()
    assert "iptables flush" not in proxy.log()


def test_what_others_do_elsewhere_is_nobodys_business(daemon):  # noqa: F811
    proxy = started(daemon, config=WITH_SYNC_PERIOD)
    assert proxy.box.run("nft", "add table ip other; add table inet kube-proxy; delete table inet kube-proxy; delete table ip other").returncode == 0
    proxy.write("cidr.yaml", CIDR)
    wait_until(lambda: "10.96.0.0/16" in table(proxy.box), "a later change in the table")
    assert "Somebody else" not in proxy.log()


def test_pages_know_the_mode(daemon):  # noqa: F811
    proxy = started(daemon)
    assert page(proxy.box, "/proxyMode") == "nftables"
    config = json.loads(page(proxy.box, "/configz"))["kubeproxy.config.k8s.io"]
    assert (config["nftables"]["minSyncPeriod"], config["nodePortAddresses"]) == ("1s", ["primary"])
    assert proxy.box.run("nft", "delete table ip kube-proxy").returncode == 0
    proxy.wait_for_log("wrote them anew")
    metrics = page(proxy.box, "/metrics")
    assert "iptables" not in metrics
    assert 'kubeproxy_kernel_drift_total{ip_family="IPv4"} 1' in metrics
    assert 'kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv6"}' in metrics


def test_leftovers_of_mode_iptables_go_after_the_first_sync(daemon, box):  # noqa: F811
    assert box.proxy("apply", "-f", box.file("web.yaml", WEB)).returncode == 0
    assert "KUBE-SERVICES" in box.save()
    proxy = started(daemon)
    wait_until(lambda: not any(line.startswith(":KUBE-S") for family in boxes.FAMILIES for line in box.rules(family)),
               f"the rules of mode iptables to go; log:\n{proxy.log()}")
    assert capabilities(proxy) == "NET_BIND_SERVICE,NET_ADMIN,NET_RAW"
    assert "Could not remove" not in proxy.log()


def test_localhost_node_ports_are_told(daemon, box):  # noqa: F811
    proxy = started(daemon, config=NFTABLES + "nodePortAddresses: [127.0.0.0/8]\n")
    assert "Setting route_localnet=1 to allow node-ports on localhost; to change this take the loopback CIDR out of nodePortAddresses" in proxy.log()
    assert box.run("cat", "/proc/sys/net/ipv4/conf/all/route_localnet").stdout.strip() == "1"
    assert re.search(r"set nodeport-ips \{[^}]*elements = \{ 127\.0\.0\.1 \}", table(box)), table(box)
