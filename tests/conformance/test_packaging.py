"""The manifests of packaging/: the API server takes them, and they give the proxy what it needs and nothing more."""

import json

import faults
import pytest
import sandbox
import yaml

ACCOUNT = ("kube-system", "kube-proxy")
PATCH = sandbox.ROOT / "packaging" / "least-privilege.yaml"
MANIFESTS = [path for path in sorted((sandbox.ROOT / "packaging").glob("*.yaml"))
             if path != PATCH and "kind: KubeProxyConfiguration" not in path.read_text(encoding="utf-8").splitlines()]

pytestmark = pytest.mark.skipif(not MANIFESTS, reason="there are no manifests in packaging/")


@pytest.fixture
def applied(plane):
    """The manifests are in the API, and nothing else gives rights to their account."""
    files = [argument for path in MANIFESTS for argument in ("-f", path)]
    plane.kubectl("apply", "--server-side", *files)
    yield plane
    plane.kubectl("delete", "--now", "--wait=false", *files)


def rights(plane, user, namespace):
    """The lines of `kubectl auth can-i --list`, without its padding."""
    listed = plane.kubectl("auth", "can-i", "--list", "--no-headers", f"--namespace={namespace}", f"--as={user}").stdout
    return {" ".join(line.split()) for line in listed.splitlines()}


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_the_account_has_the_rights_of_a_proxy_and_no_others(applied, namespace):
    """system:kube-proxy is the user that Kubernetes itself gives the role system:node-proxier; what any other account
    may do counts for nothing."""
    anybody = rights(applied, "system:serviceaccount:kube-system:somebody-else", namespace)
    account = rights(applied, "system:serviceaccount:{}:{}".format(*ACCOUNT), namespace) - anybody
    assert account == rights(applied, "system:kube-proxy", namespace) - anybody
    assert any(right.startswith("endpointslices.discovery.k8s.io ") for right in account)


def test_the_api_server_takes_the_patch_for_fewer_privileges(applied):
    applied.kubectl("-n", "kube-system", "patch", "daemonset", "kube-proxy", "--patch-file", PATCH)
    daemon_set = applied.kubectl("-n", "kube-system", "get", "daemonset", "kube-proxy", "-o", "json").stdout
    pod = json.loads(daemon_set)["spec"]["template"]["spec"]
    (proxy,), (set_up,) = pod["containers"], pod["initContainers"]
    assert not proxy["securityContext"].get("privileged")
    assert proxy["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert "--init-only" in set_up["command"]


def test_a_proxy_works_with_the_packaged_configuration(applied, ours, original):
    token = applied.state / "token"
    token.write_text(applied.token(*ACCOUNT, 3600), encoding="ascii")
    data = applied.admin.get({"kind": "ConfigMap", "metadata": {"namespace": "kube-system", "name": "kube-proxy"}})["data"]
    config = yaml.safe_load(data["config.conf"])
    # The place of the kubeconfig is that inside a pod, which this is not; what it holds stays the same.
    for key in ("apiVersion", "kind", "clientConnection"):
        del config[key]
    applied.put(faults.NODE, *faults.web(1))
    ours.start({**config, "hostnameOverride": "node1"}, applied.kubeconfig("packaged", tokenFile=token))
    ours.wait_synced()
    ours.wait_agrees(original)
