"""What can go wrong between the proxy and the API server. After each fault the kernel holds exactly what the API holds,
and the log has a line that names the cause."""

import re
import time

import faults
import lab
import pytest
from controlplane import PORT
from controlplane.credentials import Authority

# What the log must say: words that both ours and the original use, or one of each. None: nothing need be said.
SAYS = {
    "gone": r"connection refused|connection reset|EOF",
    "compacted": r"too old resource version|version.*(expired|too old|forgotten|gone)|410 gone",
    "silent": r"connection timed out|silent for too long|connection lost",
    "certificate": None,
    "token": None,
    "wrong CA": r"certificate.*(unknown authority|not trusted|verify|issuer)",
    "wrong name": r"certificate.*(valid for|not.* for|mismatch|does not match).*10\.255\.",
    "forbidden": r"{}.*forbidden|forbidden.*{}",
}
# About these the original is silent, unless asked for more.
ONLY_OURS_SAYS = {"compacted"}
# The connection must be found dead within this time.
NOTICED_S = 30.0
SHORT_S = 15


def says(node, cause, *names, seconds=NOTICED_S):
    if SAYS[cause] and not (node.is_original and cause in ONLY_OURS_SAYS):
        node.wait_says(SAYS[cause].format(*names * 2), seconds)


def test_the_api_server_is_killed_and_restarted_while_objects_change(plane, ours, original):
    faults.start(plane, ours)
    ours.wait_synced()
    with faults.changing(plane) as changes:
        lab.wait_for(lambda: changes() > 20, "objects change")
        plane.apiserver.kill()
        time.sleep(1.5)  # long enough for a first retry to fail
        plane.start_apiserver()
        plane.wait_ready()
        before = changes()
        lab.wait_for(lambda: changes() > before + 20, "objects change again", 10)
    says(ours, "gone")
    ours.wait_agrees(original)


def test_the_history_is_compacted_while_the_proxy_is_cut_off(plane, ours, original):
    """It asks for what came after the version it knows, and is told that nobody remembers that."""
    with faults.by_relay(ours) as relay:
        faults.start(plane, ours, faults.relay_kubeconfig(plane))
        ours.wait_synced()
        time.sleep(1.2)  # a watch that ends in its first second is not continued, but begun anew
        relay.hold()
        faults.change(plane)
        plane.compact()
        plane.restart_apiserver()
        relay.release()
        ours.wait_agrees(original)
        says(ours, "compacted")


def test_the_connection_dies_in_silence(plane, ours, original):
    faults.start(plane, ours)
    ours.wait_synced()
    ours.link.cut()
    faults.change(plane)
    # Long enough for it to notice, and for attempts to connect to meet the silence too.
    time.sleep((NOTICED_S + 2) * lab.SLACK)
    noticed = ours.log()
    ours.link.mend()
    ours.wait_agrees(original)
    assert re.search(SAYS["silent"], noticed, re.IGNORECASE), f"nothing in the log after {NOTICED_S * lab.SLACK:g} s of silence"


def test_answers_trickle(plane, ours, original):
    with faults.by_relay(ours, chunk=16, pause_s=0.001):
        faults.start(plane, ours, faults.relay_kubeconfig(plane), count=20)
        ours.wait_synced(60)
        faults.change(plane)
        ours.wait_agrees(original, 60)


def test_the_certificate_is_replaced(plane, ours, original):
    """The new files are there before the old certificate ends, as whoever rotates them does it."""
    with faults.by_relay(ours) as relay:
        user = faults.certificate(plane, "system:kube-proxy", SHORT_S)
        ends = time.monotonic() + SHORT_S
        faults.start(plane, ours, faults.relay_kubeconfig(plane, **user))
        ours.wait_synced()
        faults.certificate(plane, "system:kube-proxy", 3600)
        time.sleep(max(0.0, ends + 1 - time.monotonic()))
        relay.drop()
        faults.change(plane)
        ours.wait_agrees(original)
        says(ours, "certificate")


def test_the_token_is_replaced(plane, ours, original):
    with faults.by_relay(ours) as relay:
        plane.make_proxy("kube-system", "kube-proxy")
        token = plane.state / "token"
        token.write_text(plane.token("kube-system", "kube-proxy", SHORT_S), encoding="ascii")
        ends = time.monotonic() + SHORT_S
        faults.start(plane, ours, faults.relay_kubeconfig(plane, tokenFile=token))
        ours.wait_synced()
        token.write_text(plane.token("kube-system", "kube-proxy", 3600) + "\n", encoding="ascii")
        # The API server believes a token that it has just seen for another ten seconds.
        time.sleep(max(0.0, ends + 11 - time.monotonic()))
        relay.drop()
        faults.change(plane)
        ours.wait_agrees(original, 60)
        says(ours, "token")


@pytest.fixture
def no_rules(ours):
    """A check that the proxy runs, and has not touched the kernel."""
    def check():
        assert ours.daemon.running()
        assert "KUBE-SERVICES" not in ours.rules("ipv4")

    return check


def test_the_ca_is_another_one(plane, ours, original, tmp_path, no_rules):
    ca = plane.state / "proxy-ca.crt"
    ca.write_bytes(Authority(tmp_path / "other", "somebody else").certificate.read_bytes())
    faults.start(plane, ours, plane.kubeconfig("other-ca", authority=ca))
    says(ours, "wrong CA")
    no_rules()
    ca.write_bytes(plane.credentials.authority.certificate.read_bytes())
    ours.daemon.restart()
    ours.wait_agrees(original)


def test_the_certificate_is_for_another_name(plane, ours, original, no_rules):
    faults.start(plane, ours, plane.kubeconfig("other-name", server=f"https://{ours.link.address}:{PORT}"))
    says(ours, "wrong name")
    no_rules()
    plane.kubeconfig("other-name")  # the same file, with the right name
    ours.daemon.restart()
    ours.wait_agrees(original)


@pytest.fixture
def limited(plane):
    """A user who has all the rights of a proxy but one. Returns a function of that resource, which gives the
    kubeconfig; with None it gives the right back."""
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "limited"}}
    group = "rbac.authorization.k8s.io"
    plane.put({**rbac, "kind": "ClusterRoleBinding",
               "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "limited"},
               "subjects": [{"apiGroup": group, "kind": "User", "name": "limited"}]})
    rights = plane.admin.get({"kind": "ClusterRole", "metadata": {"name": "system:node-proxier"}})["rules"]

    def grant(but):
        rules = [{**rule, "resources": [one for one in rule["resources"] if one != but]} for rule in rights]
        plane.put({**rbac, "kind": "ClusterRole", "rules": [rule for rule in rules if rule["resources"]]})
        return plane.kubeconfig("limited", **faults.certificate(plane, "limited", 3600))

    return grant


@pytest.mark.parametrize("resource", ["services", "endpointslices", "servicecidrs"])
def test_one_resource_is_forbidden(plane, ours, original, limited, no_rules, resource):
    """Without Services or EndpointSlices nothing is written; ServiceCIDRs are not needed for that."""
    faults.start(plane, ours, limited(resource))
    says(ours, "forbidden", resource)
    if resource == "servicecidrs":
        ours.wait_agrees(original)
    else:
        no_rules()
    limited(None)
    faults.change(plane)
    ours.wait_agrees(original, 60)


def test_an_object_has_a_megabyte(plane, ours, original):
    faults.start(plane, ours)
    ours.wait_synced()
    service, slices = faults.web(200, 250, annotations={"example.com/long": "x" * 250_000})
    for number, endpoint in enumerate(slices["endpoints"]):
        endpoint |= {"hostname": f"h{number}-" + "h" * 55, "zone": "z" * 250, "nodeName": "n" * 250,
                     "targetRef": {"kind": "Pod", "namespace": "default", "name": "p" * 2500}}
    plane.put(service, slices)
    assert len(str(plane.admin.get(slices))) > 1_000_000
    ours.wait_agrees(original)


def test_five_thousand_changes_come_at_once(plane, ours, original):
    faults.start(plane, ours)
    ours.wait_synced()
    services = range(300, 640)
    faults.all_at_once(plane, [("create", one) for number in services for one in faults.web(number)])
    faults.all_at_once(plane, [("apply", faults.web_slice(number, 1 + (number + turn) % 3))
                               for turn in range(13) for number in services])
    faults.all_at_once(plane, [("delete", *faults.web(number)) for number in services[::4]])
    ours.wait_agrees(original, 60)
