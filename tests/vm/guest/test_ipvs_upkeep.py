"""What the proxy keeps in order in the kernel: others meddle, addresses come and go, settings change, Services grow and shrink."""

import re

import ipvsstate
import lab
import pytest
import sandbox
from ground import PODS, Ground
from lab import objects

ALL = dict.fromkeys(PODS, 1)
WEB, NODE_PORT = "TCP 10.96.3.1:80", "TCP 172.31.0.11:30080"


@pytest.fixture(scope="module")
def ground():
    """Without a proxy; each class of tests below starts one."""
    with Ground() as made:
        made.put_service("web", "10.96.3.1", node_port=30080)
        yield made


@pytest.fixture(scope="class")
def quick(ground):
    """A proxy that looks every two seconds, to mend what others did."""
    ground.clear()
    ground.start(config={"ipvs": {"syncPeriod": "2s"}})
    ground.wait_weights(WEB, ALL, 60)
    ground.wait_weights(NODE_PORT, ALL)
    return ground


class TestMending:
    @pytest.mark.parametrize("command", [
        "ipvsadm -C",
        "ipvsadm -e -t 10.96.3.1:80 -r 10.244.1.2:8080 -m -w 0",
        "ipvsadm -D -t 172.31.0.11:30080; ipvsadm -d -t 10.96.3.1:80 -r 10.244.1.2:8080; "
        "ipvsadm -E -t 10.96.3.1:80 -s sh; ipvsadm -a -t 10.96.3.1:80 -r 10.244.1.77:8080 -m",
    ])
    def test_virtual_servers(self, quick, command):
        quick.run("sh", "-e", "-c", command)
        lab.wait_for(lambda: WEB in quick.servers() and quick.servers()[WEB].scheduler == "rr", "the scheduler is ours")
        quick.wait_weights(WEB, ALL)
        quick.wait_weights(NODE_PORT, ALL)
        assert quick.who_answers(6, "client1", "10.96.3.1") == dict.fromkeys(PODS, 2)

    # Each of one kind only: what mends one kind looks at all others as well.
    @pytest.mark.parametrize("command", [
        "ipset flush",
        "ipset del KUBE-CLUSTER-IP 10.96.3.1,tcp:80; ipset add KUBE-CLUSTER-IP 10.96.99.99,tcp:80",
        "ip addr flush dev kube-ipvs0",
        "ip addr del 10.96.3.1/32 dev kube-ipvs0; ip addr add 10.96.99.99/32 dev kube-ipvs0",
        "ip link del kube-ipvs0",
        "iptables -t nat -F KUBE-SERVICES",
        "iptables -D INPUT 1",
        "iptables -t nat -F; iptables -t nat -X; iptables -F; iptables -X",
    ])
    def test_sets_addresses_and_rules(self, quick, command):
        before = everything(quick)
        quick.run("sh", "-e", "-c", command)
        try:
            lab.wait_for(lambda: everything(quick) == before, "", 30, every=0.5)
        except lab.NotInTime:
            raise AssertionError(f"before `{command}`:\n{before}\nlong after it:\n{everything(quick)}\nthe log ends:\n"
                                 + quick.daemon.log_text()[-4000:]) from None

    def test_virtual_servers_of_others_go(self, quick):
        quick.run("ipvsadm", "-A", "-t", "192.0.2.7:80")
        lab.wait_for(lambda: "TCP 192.0.2.7:80" not in quick.servers(), "it is gone")


class TestAddresses:
    def test_a_new_address_of_the_node_serves_node_ports(self, quick):
        quick.netns.ip("addr add 172.31.0.50/32 dev eth0")
        quick.wait_weights("TCP 172.31.0.50:30080", ALL)
        quick.netns.ip("addr del 172.31.0.50/32 dev eth0")
        quick.wait_weights("TCP 172.31.0.50:30080", None)

    def test_a_service_that_goes_takes_its_address_along(self, quick):
        quick.put_service("short", "10.96.3.9")
        quick.wait_weights("TCP 10.96.3.9:80", ALL)
        assert "10.96.3.9" in bound(quick)
        quick.delete_service("short")
        quick.wait_weights("TCP 10.96.3.9:80", None)
        lab.wait_for(lambda: "10.96.3.9" not in bound(quick), "its address is gone")
        assert "10.96.3.9" not in quick.run("ipset", "save", "KUBE-CLUSTER-IP")

    def test_what_an_earlier_run_left_goes(self, quick):
        quick.stop()
        quick.run("ip", "addr", "add", "10.96.3.77/32", "dev", "kube-ipvs0")
        quick.run("ipvsadm", "-A", "-t", "10.96.3.77:80")
        quick.run("ipset", "add", "KUBE-CLUSTER-IP", "10.96.3.77,tcp:80")
        quick.daemon.start()
        lab.wait_for(lambda: "10.96.3.77" not in bound(quick) and "TCP 10.96.3.77:80" not in quick.servers(), "they are gone", 60)
        lab.wait_for(lambda: "10.96.3.77" not in quick.run("ipset", "save", "KUBE-CLUSTER-IP"), "the entry is gone")


class TestEndpoints:
    def test_scaling_up_and_down(self, quick):
        for pods in (["web1"], ["web1", "web2", "web3"], [], ["web2"], PODS):
            quick.put_endpoints("web", pods)
            for server in (WEB, NODE_PORT):
                lab.wait_for(lambda server=server, pods=pods: taking_connections(quick, server) == set(pods), f"{server} has {pods}")
            if pods:
                assert quick.who_answers(len(pods), "client1", "10.96.3.1") == dict.fromkeys(pods, 1)
            else:
                with pytest.raises(ConnectionRefusedError):
                    quick.connect("client1", "10.96.3.1")

    def test_session_affinity_is_persistence(self, quick):
        def put_sticky(seconds):
            quick.put_service("sticky", "10.96.3.5", sessionAffinity="ClientIP",
                              sessionAffinityConfig={"clientIP": {"timeoutSeconds": seconds}})

        put_sticky(300)
        quick.wait_weights("TCP 10.96.3.5:80", ALL)
        assert ipvsstate.persistence(quick.servers()["TCP 10.96.3.5:80"]) == 300
        answers = [quick.who_answers(4, "client1", "10.96.3.5", source=source) for source in quick.sources[:6]]
        assert all(len(one) == 1 for one in answers)
        assert len({pod for one in answers for pod in one}) == 3
        put_sticky(100)
        lab.wait_for(lambda: ipvsstate.persistence(quick.servers()["TCP 10.96.3.5:80"]) == 100, "the timeout has changed")
        quick.delete_service("sticky")


class TestSettings:
    def test_exclude_cidrs_keeps_virtual_servers_of_others(self, ground):
        ground.clear()
        for address in ("192.0.2.7", "198.18.0.7"):
            ground.run("ipvsadm", "-A", "-t", f"{address}:80")
        ground.start(config={"ipvs": {"syncPeriod": "2s", "excludeCIDRs": ["192.0.2.0/24"]}})
        ground.wait_weights(WEB, ALL, 60)
        lab.wait_for(lambda: "TCP 198.18.0.7:80" not in ground.servers(), "the other one is gone")
        ground.put_endpoints("web", ["web1"])  # and once more, by a change
        ground.wait_weights(WEB, {"web1": 1})
        assert "TCP 192.0.2.7:80" in ground.servers()
        ground.put_endpoints("web", PODS)

    def test_strict_arp_timeouts_and_sysctls(self, ground):
        ground.clear()
        names = ("net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce", "net.ipv4.vs.conntrack",
                 "net.ipv4.vs.expire_nodest_conn", "net.ipv4.vs.expire_quiescent_template", "net.ipv4.ip_forward")
        for name in names:
            ground.run("sysctl", "-q", f"{name}=0")
        ground.start(config={"ipvs": {"strictARP": True, "tcpTimeout": "700s", "tcpFinTimeout": "70s", "udpTimeout": "33s"}})
        ground.wait_weights(WEB, ALL, 60)
        assert ground.run("sysctl", "-n", *names).split() == ["1", "2", "1", "1", "1", "1"]
        assert re.findall(r"\d+", ground.run("ipvsadm", "-l", "--timeout")) == ["700", "70", "33"]

    def test_a_timeout_of_zero_leaves_the_kernels(self, ground):
        ground.clear()
        ground.run("ipvsadm", "--set", "600", "60", "30")
        ground.start(config={"ipvs": {"udpTimeout": "44s"}})
        ground.wait_weights(WEB, ALL, 60)
        assert re.findall(r"\d+", ground.run("ipvsadm", "-l", "--timeout")) == ["600", "60", "44"]

    def test_cleanup_takes_all_away(self, ground):
        ground.stop()
        assert ground.servers()
        ground.run(sandbox.BINARY, "--cleanup")
        assert not ground.servers()
        assert "kube-ipvs0" not in ground.run("ip", "-o", "link")
        assert "KUBE" not in ground.run("ipset", "save", "-n") + ground.run("iptables-save")


class TestStarting:
    def test_init_only_ends_after_the_sysctls(self, ground):
        ground.clear()
        ground.run("sysctl", "-q", "net.ipv4.vs.conntrack=0")
        daemon = ground.start(flags=["--init-only"])
        lab.wait_for(lambda: not daemon.running(), "kube-proxy ends")
        assert daemon.stop() == 0, daemon.log_text()
        assert ground.run("sysctl", "-n", "net.ipv4.vs.conntrack").strip() == "1"
        assert not ground.servers()

    def test_without_the_right_to_change_the_network_it_says_so(self, ground):
        ground.clear()
        wrapper = ground.cluster.state / "powerless"
        wrapper.write_text(f'#!/bin/sh\nexec setpriv --bounding-set=-net_admin {sandbox.BINARY} "$@"\n')
        wrapper.chmod(0o755)
        daemon = ground.start(binary=wrapper)
        lab.wait_for(lambda: not daemon.running(), "kube-proxy ends")
        assert daemon.stop() == 1, daemon.log_text()
        assert re.search("can't use the IPVS proxier|iptables is not available", daemon.log_text()), daemon.log_text()


def test_dual_stack():
    with Ground(dual_stack=True) as both:
        both.put_service("web", ["10.96.3.1", "fd00:10:96::31"], node_port=30080)
        ends = [both.cluster.endpoint(pod, 6) for pod in PODS]
        both.objects.put(objects.endpoint_slice("web", ends, [objects.port(8080, name="p")], suffix="six"))
        both.start()
        for server in (WEB, NODE_PORT, "TCP [fd00:10:96::31]:80", "TCP [fd00:31::11]:30080"):
            both.wait_weights(server, ALL, 60)
        for client, address, port in [("client1", "10.96.3.1", 80), ("client1", "fd00:10:96::31", 80), ("ext1", "fd00:31::11", 30080)]:
            assert both.who_answers(3, client, address, port) == ALL
        assert bound(both) == {"10.96.3.1", "fd00:10:96::31"}


def taking_connections(ground, server):
    """The pods that new connections may go to; others may still be drained."""
    return {pod for pod, weight in ground.weights(server).items() if weight}


def bound(ground):
    """The addresses of our device but the one that the kernel gives it."""
    lines = ground.run("ip", "-o", "addr", "show", "dev", "kube-ipvs0", check=False).splitlines()
    return {line.split()[3].partition("/")[0] for line in lines if "fe80:" not in line}


def everything(ground):
    """Sets, addresses and rules, as far as they are the same after every start."""
    sets = sorted(re.sub(r" (initval|hashsize|bucketsize) \S+", "", line) for line in ground.run("ipset", "save").splitlines())
    rules = re.sub(r"#.*|\[\d+:\d+\]", "", ground.run("iptables-save"))
    return sets, bound(ground), sorted(rules.splitlines())
