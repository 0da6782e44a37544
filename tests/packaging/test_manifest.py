"""packaging/kube-proxy.yaml: what kubeadm would make, and no right that it would not give."""

import subprocess

import pytest
import roots

yaml = pytest.importorskip("yaml", reason="the module yaml is not installed (package python3-yaml)")

MANIFEST = roots.REPOSITORY / "packaging" / "kube-proxy.yaml"


@pytest.fixture(scope="module")
def objects():
    documents = [d for d in yaml.safe_load_all(MANIFEST.read_text()) if d is not None]
    return {document["kind"]: document for document in documents}


@pytest.fixture
def pod(objects):
    return objects["DaemonSet"]["spec"]["template"]["spec"]


@pytest.fixture
def container(pod):
    assert len(pod["containers"]) == 1
    return pod["containers"][0]


def test_it_has_these_objects_once_each(objects):
    documents = [d for d in yaml.safe_load_all(MANIFEST.read_text()) if d is not None]
    assert sorted(d["kind"] for d in documents) == ["ClusterRoleBinding", "ConfigMap", "DaemonSet", "ServiceAccount"]
    for kind in ("ConfigMap", "DaemonSet", "ServiceAccount"):
        assert objects[kind]["metadata"]["name"] == "kube-proxy"
        assert objects[kind]["metadata"]["namespace"] == "kube-system"


def test_rights_are_those_of_the_built_in_role_and_for_this_account_only(objects):
    binding = objects["ClusterRoleBinding"]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "kube-proxy", "namespace": "kube-system"}]


def test_the_pod_runs_on_every_linux_node_in_its_network(objects, pod):
    assert pod["hostNetwork"] is True
    assert pod["priorityClassName"] == "system-node-critical"
    assert pod["serviceAccountName"] == "kube-proxy"
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    labels = {"k8s-app": "kube-proxy"}
    assert objects["DaemonSet"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["DaemonSet"]["spec"]["template"]["metadata"]["labels"] == labels


def test_the_command_is_the_one_of_kubeadm(container):
    assert container["command"] == ["/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf",
                                    "--hostname-override=$(NODE_NAME)"]
    assert container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert container["securityContext"] == {"privileged": True}
    assert not [key for key in container if key.endswith("Probe")]


def test_what_is_mounted_is_there(pod, container):
    mounts = {mount["name"]: (mount["mountPath"], mount.get("readOnly", False)) for mount in container["volumeMounts"]}
    assert mounts == {"kube-proxy": ("/var/lib/kube-proxy", False), "xtables-lock": ("/run/xtables.lock", False),
                      "lib-modules": ("/lib/modules", True)}
    volumes = {volume.pop("name"): volume for volume in pod["volumes"]}
    assert volumes == {"kube-proxy": {"configMap": {"name": "kube-proxy"}},
                       "xtables-lock": {"hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
                       "lib-modules": {"hostPath": {"path": "/lib/modules"}}}


def test_the_program_accepts_the_configuration(objects, tmp_path):
    data = objects["ConfigMap"]["data"]
    assert sorted(data) == ["config.conf", "kubeconfig.conf"]
    config = tmp_path / "config.conf"
    config.write_text(data["config.conf"])
    written = tmp_path / "written.yaml"
    done = subprocess.run([roots.BINARY, f"--config={config}", "--hostname-override=node1", f"--write-config-to={written}"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "unknown field" not in done.stderr
    effective = yaml.safe_load(written.read_text())
    assert effective["hostnameOverride"] == "node1"
    assert effective["clientConnection"]["kubeconfig"] == "/var/lib/kube-proxy/kubeconfig.conf"


def test_the_kubeconfig_uses_the_account_of_the_pod(objects):
    kubeconfig = yaml.safe_load(objects["ConfigMap"]["data"]["kubeconfig.conf"])
    context = {c["name"]: c["context"] for c in kubeconfig["contexts"]}[kubeconfig["current-context"]]
    cluster = {c["name"]: c["cluster"] for c in kubeconfig["clusters"]}[context["cluster"]]
    user = {u["name"]: u["user"] for u in kubeconfig["users"]}[context["user"]]
    assert cluster["certificate-authority"] == "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    assert user == {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}
