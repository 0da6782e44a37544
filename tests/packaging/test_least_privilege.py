"""packaging/least-privilege.yaml: a patch that fits the DaemonSet, and gives no more than the program keeps."""

import re

import pytest
import roots

yaml = pytest.importorskip("yaml", reason="the module yaml is not installed (package python3-yaml)")

PACKAGING = roots.REPOSITORY / "packaging"


def pod_of(name):
    documents = yaml.safe_load_all((PACKAGING / name).read_text())
    return next(d for d in documents if d and "template" in d.get("spec", {}))["spec"]["template"]["spec"]


@pytest.fixture
def default():
    return pod_of("kube-proxy.yaml")


@pytest.fixture
def patch():
    return pod_of("least-privilege.yaml")


def test_it_patches_the_one_container(default, patch):
    assert [c["name"] for c in patch["containers"]] == [c["name"] for c in default["containers"]]
    images = {c["image"] for c in patch["containers"] + patch["initContainers"]}
    assert images == {default["containers"][0]["image"]}


def test_the_proxy_may_do_what_it_keeps_and_no_more(patch):
    context = patch["containers"][0]["securityContext"]
    assert context["privileged"] is False and context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True
    assert context["capabilities"]["drop"] == ["ALL"]
    assert set(context["capabilities"]["add"]) == roots.KEPT_CAPABILITIES


def test_what_it_keeps_is_what_the_program_says():
    source = (roots.REPOSITORY / "src" / "daemon" / "privileges.cpp").read_text()
    assert set(re.findall(r"CAP_(\w+)", source)) == roots.KEPT_CAPABILITIES


def test_the_init_container_sets_up_and_ends(default, patch):
    proxy, init = default["containers"][0], patch["initContainers"][0]
    assert init["command"] == [*proxy["command"], "--init-only"]
    assert init["securityContext"] == {"privileged": True}
    assert (init["env"], init["volumeMounts"]) == (proxy["env"], proxy["volumeMounts"])
