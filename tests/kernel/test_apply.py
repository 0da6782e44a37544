"""The one-shot commands on the real kernel: what they leave there, and what they leave alone."""

import json
import os
import subprocess

import pytest
import sandbox as boxes

WEB = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  ports: [{name: http, port: 80, protocol: TCP, nodePort: 30080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.244.1.2]}, {addresses: [10.244.2.3]}]
ports: [{name: http, port: 8080, protocol: TCP}]
"""


def arguments(box, recording):
    return ["-f", boxes.objects_of(recording), "--config", box.file("config.yaml", boxes.config_of(recording))]


@pytest.mark.parametrize("recording", boxes.RECORDINGS)
def test_the_kernel_holds_what_the_real_one_had(box, recording):
    done = box.proxy("apply", *arguments(box, recording))
    assert done.returncode == 0, done.stderr
    for family, program in boxes.FAMILIES.items():
        recorded = boxes.ROOT / "tests" / "recordings" / recording / f"{program}.txt"
        assert boxes.same_rules(recorded, box.save(family), box.folder) == "same"
    again = box.proxy("apply", *arguments(box, recording))
    assert again.stdout.splitlines() == ["IPv4: nothing to change", "IPv6: nothing to change"]
    difference = box.proxy("diff", *arguments(box, recording))
    assert (difference.returncode, difference.stdout) == (0, "# IPv4: nothing would change\n# IPv6: nothing would change\n")


def test_apply_sets_route_localnet_and_counters_and_nothing_else(box):
    folder = "/proc/sys/net"
    before = box.run("sh", "-c", f"grep -rs . {folder}/netfilter {folder}/ipv4/conf/all").stdout.splitlines()
    assert box.proxy("apply", "-f", box.file("web.yaml", WEB)).returncode == 0
    after = box.run("sh", "-c", f"grep -rs . {folder}/netfilter {folder}/ipv4/conf/all").stdout.splitlines()
    changed = [line for line in after if line not in before and "nf_conntrack_count" not in line]
    assert changed == [f"{folder}/ipv4/conf/all/route_localnet:1"]
    assert "--nfacct-name  localhost_nps_accepted_pkts" in box.save()


def test_render_needs_no_root_and_prints_what_apply_leaves(box):
    web = box.file("web.yaml", WEB)
    os.chmod(box.folder, 0o755)
    done = box.run("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", boxes.BINARY, "render", "-f", web, "--family", "ipv4")
    assert done.returncode == 0, done.stderr
    assert box.proxy("apply", "-f", web).returncode == 0
    rendered = box.file("rendered.txt", done.stdout)
    assert boxes.same_rules(rendered, box.save(), box.folder) == "same"


def test_apply_without_root_says_what_to_do(box):
    web = box.file("web.yaml", WEB)
    os.chmod(box.folder, 0o755)
    done = box.run("setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", boxes.BINARY, "apply", "-f", web)
    assert done.returncode == 1
    assert "run as root, or with CAP_NET_ADMIN" in done.stderr


def test_without_iptables_the_message_names_the_package(box):
    env = dict(os.environ, PATH="/nonexistent")
    done = subprocess.run(["/usr/sbin/ip", "netns", "exec", box.ns.name, boxes.BINARY, "apply", "-f", str(box.file("web.yaml", WEB))],
                          env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "iptables: not found in PATH; install the package iptables" in done.stderr


def test_diff_shows_added_and_removed_rules(box):
    web = box.file("web.yaml", WEB)
    first = box.proxy("diff", "-f", web)
    assert first.returncode == 1
    assert "@@ nat KUBE-SERVICES (new)" in first.stdout
    assert box.proxy("apply", "-f", web).returncode == 0
    box.file("web.yaml", WEB.replace("10.96.0.10", "10.96.0.11"))
    second = box.proxy("diff", "-f", web)
    lines = [line for line in second.stdout.splitlines() if "KUBE-SERVICES" in line]
    assert any(line.startswith("--A") and "10.96.0.10/32" in line for line in lines)
    assert any(line.startswith("+-A") and "10.96.0.11/32" in line for line in lines)


def test_output_for_programs_is_json(box):
    web = box.file("web.yaml", WEB)
    rendered = json.loads(box.proxy("render", "-f", web, "-o", "json").stdout)
    assert [f["family"] for f in rendered["families"]] == ["IPv4", "IPv6"]
    port = rendered["families"][0]["ports"][0]
    assert (port["name"], port["internal"], port["endpoints"][0]) == (
        "default/web:http", "cluster", {"address": "10.244.1.2:8080", "local": False, "cluster": "ready", "nodeLocal": "not-asked"})
    assert json.loads(box.proxy("diff", "-f", web, "-o", "json").stdout)["families"][0]["chains"]
    assert json.loads(box.proxy("apply", "-f", web, "-o", "json").stdout)["families"][0]["rules"] > 0


def test_what_others_have_stays(box):
    foreign = ("*filter\n:DOCKER-USER - [0:0]\n-A DOCKER-USER -s 198.51.100.0/24 -j DROP\n-A FORWARD -j DOCKER-USER\nCOMMIT\n"
               "*nat\n:CNI-HOSTPORT-DNAT - [0:0]\n-A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.244.1.9:80\n"
               "-A PREROUTING -j CNI-HOSTPORT-DNAT\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n*mangle\n-A FORWARD -j ACCEPT\nCOMMIT\n")
    assert box.run("iptables-restore", "--noflush", input=foreign).returncode == 0
    before = box.rules()
    web = box.file("web.yaml", WEB)
    assert box.proxy("apply", "-f", web).returncode == 0
    assert [line for line in before if line not in box.rules()] == []
    assert box.proxy("--cleanup").returncode == 0
    kept = {":KUBE-FIREWALL -", "-A INPUT -j KUBE-FIREWALL", "-A OUTPUT -j KUBE-FIREWALL"}
    extra = [line for line in box.rules() if line not in before]
    assert {line for line in extra if "block incoming localnet connections" not in line} == kept


def test_cleanup_leaves_the_kubelets_share_and_counters(box, variant):
    assert box.proxy("apply", *arguments(box, "seed-yaobank")).returncode == 0
    done = box.proxy("--cleanup")
    assert done.returncode == 0, done.stderr
    for family in boxes.FAMILIES:
        ours = [line for line in box.rules(family) if "KUBE" in line and "KUBE-FIREWALL" not in line]
        assert ours == []
    assert box.proxy("--cleanup").returncode == 0, "nothing left to remove is no error"


def test_cleanup_removes_a_table_of_mode_nftables(box):
    if box.run("nft", "--version").returncode != 0:
        pytest.skip("needs nft to make the table (package nftables)")
    assert box.run("nft", "add table ip kube-proxy; add table ip6 kube-proxy; add table ip other").returncode == 0
    assert box.proxy("--cleanup").returncode == 0
    tables = box.run("nft", "list", "tables").stdout
    assert "kube-proxy" not in tables
    assert "table ip other" in tables
