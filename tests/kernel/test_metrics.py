"""The metrics server of a running daemon, seen from outside."""

import datetime

import exposition
import pages
import pytest
from test_apply import WEB
from test_daemon import CONFIG, daemon, wait_until  # noqa: F401  (daemon is a fixture)

METRICS_PORT = 10249
HEALTHZ_PORT = 10256
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"


class Scraped:
    """A daemon and its pages."""

    def __init__(self, proxy):
        self.proxy = proxy
        wait_until(self._serves, "the metrics server")

    def _serves(self):
        try:
            return self.ask("/healthz").status == 200
        except OSError:
            return False

    def ask(self, path, port=METRICS_PORT, **request):
        return pages.ask(self.proxy.box.ns, port, path, **request)

    def families(self, **request):
        return exposition.parse(self.ask("/metrics", **request).text)

    def value(self, name, suffix="", **labels):
        """Zero while there is no such sample."""
        family = self.families().get(name)
        return (family.value(suffix, **labels) if family else None) or 0

    def wait_for(self, name, least=1, suffix="", **labels):
        wait_until(lambda: self.value(name, suffix, **labels) >= least,
                   f"{name}{suffix}{labels} to be {least}; log:\n{self.proxy.log()}")


@pytest.fixture
def scraped(daemon):  # noqa: F811
    def make(*flags, **options):
        made = Scraped(daemon(*flags, **options))
        made.wait_for("kubeproxy_sync_proxy_rules_last_timestamp_seconds", ip_family="IPv4")
        return made

    return make


def triggered(text, when):
    """WEB with an annotation that says when it changed."""
    return text.replace("labels: {kubernetes.io/service-name: web}",
                        "labels: {kubernetes.io/service-name: web}, annotations: "
                        f"{{endpoints.kubernetes.io/last-change-trigger-time: \"{when.isoformat()}\"}}")


def delimited_names(body):
    """The names of MetricFamily messages, each behind its length."""
    def varint(at):
        value, shift = 0, 0
        while True:
            byte = body[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    names, at = [], 0
    while at < len(body):
        size, at = varint(at)
        assert body[at] == 0x0A, "the first field is the name"
        length, start = varint(at + 1)
        names.append(body[start:start + length].decode())
        at += size
    return names


def test_all_forms_show_the_same_families(scraped):
    proxy = scraped()
    plain, packed = proxy.families(), proxy.families(headers={"Accept-Encoding": "gzip"})
    assert plain.keys() == packed.keys()
    messages = proxy.ask("/metrics", headers={"Accept": PROTOBUF})
    assert messages.headers["content-type"].startswith("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; ")
    assert delimited_names(messages.body) == sorted(plain)


def test_a_change_is_timed_from_its_trigger_to_the_kernel(scraped):
    proxy = scraped()
    proxy.proxy.write("web.yaml", triggered(WEB, datetime.datetime.now(datetime.timezone.utc)))
    proxy.wait_for("kubeproxy_network_programming_duration_seconds", suffix="_count", ip_family="IPv4")
    for stage in ("plan", "render", "commit"):
        proxy.wait_for("kubeproxy_sync_stage_duration_seconds", suffix="_count", ip_family="IPv4", stage=stage)
    assert proxy.value("kubeproxy_dirty_services", ip_family="IPv4") == 0


def test_rules_that_somebody_else_changes_are_counted(scraped):
    proxy = scraped()
    proxy.proxy.write("web.yaml", WEB)
    proxy.proxy.wait_for_rule("10.96.0.10/32")
    proxy.proxy.box.run("iptables", "-t", "nat", "-F", "KUBE-SERVICES")
    proxy.proxy.box.run("iptables", "-t", "mangle", "-F")
    proxy.proxy.box.run("iptables", "-t", "mangle", "-X")
    proxy.wait_for("kubeproxy_kernel_drift_total", ip_family="IPv4")


def test_questions_about_health_are_counted(scraped):
    proxy = scraped()
    code = str(proxy.ask("/livez", HEALTHZ_PORT).status)
    assert proxy.value("kubeproxy_proxy_livez_total", code=code) == 1
    assert proxy.value("kubeproxy_proxy_healthz_total", code=code) == 0


def test_packets_that_the_kernel_counts_are_shown(scraped):
    proxy = scraped()
    if "failed to initialize nfacct client" in proxy.proxy.log():
        pytest.skip("this kernel has no nfacct")
    assert "kubeproxy_iptables_ct_state_invalid_dropped_packets_total" in proxy.families()


def test_the_log_becomes_louder_and_quieter_on_demand(scraped):
    proxy = scraped(config=CONFIG + "enableProfiling: true\n")
    assert proxy.ask("/debug/flags/v", method="PUT", body="0").status == 200
    proxy.proxy.wait_for_log("Synced rules", 2)  # the first sync of each family is always told
    before = proxy.proxy.log().count("Synced rules")
    proxy.proxy.write("web.yaml", WEB)
    proxy.proxy.wait_for_rule("10.96.0.10/32")
    assert proxy.proxy.log().count("Synced rules") == before
    assert proxy.ask("/debug/flags/v", method="PUT", body="2").status == 200
    proxy.proxy.write("web.yaml", WEB.replace("10.244.2.3", "10.244.2.77"))
    proxy.proxy.wait_for_log("Synced rules", before + 1)


def test_without_profiling_nothing_can_be_changed(scraped):
    proxy = scraped()
    for path in ("/debug/flags/v", "/debug/pprof/", "/debug/pprof/heap"):
        assert proxy.ask(path, method="PUT", body="4").status == 404


def test_flags_are_shown(scraped):
    proxy = scraped()
    assert f"\nmanifests:{proxy.proxy.manifests}\n" in proxy.ask("/flagz").text
