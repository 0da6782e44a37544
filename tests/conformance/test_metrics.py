"""The metrics server beside that of the original, on the same objects: whoever has dashboards, alerts or scripts for the
one can point them at the other."""

import datetime
import json

import exposition
import faults
import lab
import pages
import pytest
import yaml
from lab import objects
from node import CONFIG, METRICS_PORT

HEALTHZ_PORT = 10256
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

# What the original has because of how it is built, by the beginning of the name. Nothing about proxying is in there.
BY_PRODUCTS = {
    "go_": "Go's runtime",
    "aggregator_": "a library for API servers, which the original is linked with",
    "apiserver_": "likewise",
    "workqueue_": "the goroutine that looks after client certificates",
}
# What we have beyond it.
OURS = {
    "kubeproxy_api_last_heard_timestamp_seconds", "kubeproxy_decode_duration_seconds", "kubeproxy_dirty_services",
    "kubeproxy_kernel_drift_total", "kubeproxy_sync_stage_duration_seconds", "kubeproxy_watch_lag_seconds",
}


class Pair:
    """Our proxy and the original, both in sync with the same objects, and both asked the same."""

    def __init__(self, nodes):
        self._nodes = nodes

    def ask(self, path, port=METRICS_PORT, **request):
        """What the original answers, and what we do."""
        original, ours = (pages.ask(node.netns, port, path, **request) for node in self._nodes)
        return original, ours

    def families(self, path="/metrics"):
        return tuple(exposition.parse(page.text) for page in self.ask(path))


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")


def dns():
    """A Service over UDP, which makes both look at conntrack, for local clients only, of which there are none."""
    return [objects.service("dns", "10.97.9.9", [objects.port(53, "UDP")], internalTrafficPolicy="Local"),
            dns_slice("10.244.2.9")]


def dns_slice(address, **metadata):
    made = objects.endpoint_slice("dns", [objects.endpoint(address, node="node2")], [objects.port(53, "UDP")])
    made["metadata"].update(metadata)
    return made


@pytest.fixture(scope="module")
def pair(session_plane, session_original, session_ours):
    session_plane.wipe()
    session_plane.put(faults.NODE, *faults.web(1), *dns())
    nodes = (session_original, session_ours)
    for node in nodes:
        node.start({**CONFIG, "enableProfiling": True})
    for node in nodes:
        node.wait_synced()
    # A change that says when it happened, seen by both until they have nothing more to tell for the first time.
    session_plane.put(dns_slice("10.244.2.10", annotations={TRIGGER_TIME: now()}))
    made = Pair(nodes)
    for node in nodes:
        for path in ("/healthz", "/livez"):
            pages.ask(node.netns, HEALTHZ_PORT, path)
        pages.ask(node.netns, METRICS_PORT, "/healthz")
        lab.wait_for(lambda node=node: "kubeproxy_network_programming_duration_seconds" in node.metrics(),
                     f"{node.name}: the change is in the kernel")
    yield made
    for node in nodes:
        node.clear()
    session_plane.wipe()


def is_by_product(name):
    return name.startswith(tuple(BY_PRODUCTS))


def test_every_family_of_the_original_is_there_and_looks_the_same(pair):
    original, ours = pair.families()
    problems = []
    for name, family in original.items():
        if is_by_product(name):
            continue
        mine = ours.get(name)
        if mine is None:
            problems.append(f"{name} is missing")
            continue
        for what in ("type", "help"):
            if getattr(mine, what) != getattr(family, what):
                problems.append(f"{name}: the {what} is {getattr(mine, what)!r}, not {getattr(family, what)!r}")
        for what in ("label_names", "bounds"):
            if getattr(mine, what)() != getattr(family, what)():
                problems.append(f"{name}: {what} are {getattr(mine, what)()}, not {getattr(family, what)()}")
    assert not problems, "\n".join(problems)


def test_what_we_have_beyond_it_is_known_and_marked(pair):
    original, ours = pair.families()
    assert ours.keys() - original.keys() == OURS
    assert all(ours[name].help.startswith("[ALPHA] ") for name in OURS)


@pytest.mark.parametrize("name", ["kubernetes_feature_enabled", "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
                                  "kubeproxy_sync_proxy_rules_iptables_total", "hidden_metrics_total"])
def test_samples_are_the_same(pair, name):
    original, ours = pair.families()
    assert ours[name].samples == original[name].samples


def test_metrics_come_in_the_same_forms(pair):
    for headers in ({}, {"Accept": "text/plain;version=0.0.4"}, {"Accept": PROTOBUF}, {"Accept-Encoding": "gzip"},
                    {"Accept": f"{PROTOBUF};escaping=allow-utf-8;q=0.6,text/plain;q=0.5"},
                    {"Accept": "application/openmetrics-text;version=1.0.0"}, {"Accept": PROTOBUF, "Accept-Encoding": "gzip"}):
        original, ours = pair.ask("/metrics", headers=headers)
        for name in ("content-type", "content-encoding"):
            assert ours.headers.get(name) == original.headers.get(name), headers
        assert ours.headers["process-start-time-unix"].isdigit()


def test_indicators_are_the_same(pair):
    original, ours = pair.families("/metrics/slis")
    del original["process_start_time_seconds"], ours["process_start_time_seconds"]
    assert ours == original


@pytest.mark.parametrize("path", ["/proxyMode", "/healthz", "/healthz?verbose", "/healthz?verbose&exclude=ping", "/healthz/ping",
                                  "/healthz/", "/", "/livez", "/readyz", "/flagz/", "/debug", "/debug/flags", "/debug/flags/x",
                                  "/debug/flags/v", "/debug/pprof", "/debug/pprof/cmdline", "/debug/pprof/nope"])
def test_a_page_is_the_same(pair, path):
    original, ours = pair.ask(path)
    assert (ours.status, ours.body) == (original.status, original.body)
    for name in ("content-type", "x-content-type-options", "location"):
        assert ours.headers.get(name) == original.headers.get(name)


@pytest.mark.parametrize("body", ["4", "2", "x", "", "-3", "2147483648", "3\n"])
def test_verbosity_is_set_alike(pair, body):
    original, ours = pair.ask("/debug/flags/v", method="PUT", body=body)
    assert (ours.status, ours.body) == (original.status, original.body)


def test_the_configuration_is_the_same(pair):
    original, ours = pair.ask("/configz")
    assert json.loads(ours.body) == json.loads(original.body)
    assert ours.headers["content-type"] == original.headers["content-type"]


def as_object(kind, form="json", version="v1beta1"):
    return {"Accept": f"application/{form};v={version};g=config.k8s.io;as={kind}"}


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("kind", ["Flagz", "Statusz"])
def test_objects_have_the_same_fields(pair, kind, form, version):
    original, ours = pair.ask(f"/{kind.lower()}", headers=as_object(kind, form, version))
    for name in ("content-type", "warning"):
        assert ours.headers.get(name) == original.headers.get(name)
    theirs, mine = (yaml.safe_load(page.text) for page in (original, ours))
    assert mine.keys() == theirs.keys()
    assert {key: type(value) for key, value in mine.items()} == {key: type(value) for key, value in theirs.items()}
    for key in ("kind", "apiVersion", "metadata", "binaryVersion", "emulationVersion", "paths"):
        assert mine.get(key) == theirs.get(key)


def test_every_flag_of_the_original_is_shown_with_its_value(pair):
    original, ours = (json.loads(page.body)["flags"] for page in pair.ask("/flagz", headers=as_object("Flagz")))
    del original["config"]
    assert {name: ours.get(name) for name in original} == original


@pytest.mark.parametrize("page", ["flagz", "statusz"])
def test_text_has_the_same_lines(pair, page):
    """What stands between a name and its value, the original draws by lot."""
    def names(text):
        return [line.replace("=", " ").replace(":", " ").split(" ")[0] for line in text.splitlines()]

    original, ours = pair.ask(f"/{page}")
    assert ours.headers["content-type"] == original.headers["content-type"]
    assert set(names(original.text)) <= set(names(ours.text))
    assert ours.text.splitlines()[:3] == original.text.splitlines()[:3]


@pytest.mark.parametrize("accept", ["application/json", "text/html", "application/json;v=v9;g=config.k8s.io;as=Flagz"])
def test_what_is_not_acceptable_is_refused_alike(pair, accept):
    original, ours = pair.ask("/flagz", headers={"Accept": accept})
    assert ours.status == original.status == 406
    assert json.loads(ours.body) == json.loads(original.body)
