"""Each scheduler of the kernel, chosen for all Services or for one, distributes as it should."""

import collections
import contextlib

import lab
import pytest
from ground import PODS, Ground

SCHEDULER = "ipvs.kube-proxy/scheduler"
WEIGHTS = "ipvs.kube-proxy/weights"
SERVER = "TCP 10.96.2.{}:80"

UNEVEN = {"web1": 3, "web2": 2, "web3": 1}


@pytest.fixture(scope="module")
def ground():
    with Ground() as made:
        made.start()
        yield made


def weights_of(ground, weights):
    """The annotation that gives pods these weights."""
    return ", ".join(f"{ground.cluster.address(pod)}={weight}" for pod, weight in weights.items())


@pytest.fixture(scope="module")
def numbers():
    """Last numbers of cluster IPs; each Service here has one of its own."""
    return iter(range(1, 250))


@pytest.fixture
def service(ground, numbers):
    """Makes a Service with a scheduler, and perhaps weights; returns its address."""
    def make(scheduler, weights=None):
        number = next(numbers)
        annotations = {SCHEDULER: scheduler} | ({WEIGHTS: weights_of(ground, weights)} if weights else {})
        ground.put_service(f"s{number}", f"10.96.2.{number}", annotations=annotations)
        server = SERVER.format(number)
        ground.wait_weights(server, weights or dict.fromkeys(PODS, 1))
        assert ground.servers()[server].scheduler == scheduler
        return f"10.96.2.{number}"

    return make


@contextlib.contextmanager
def open_connections(ground, address, count, **options):
    """That many connections, one after the other, all open until the end; gives who has how many."""
    with contextlib.ExitStack() as stack:
        yield collections.Counter(stack.enter_context(ground.connect("client1", address, **options)).pod for _ in range(count))


def test_rr_goes_round(ground, service):
    assert ground.who_answers(30, "client1", service("rr")) == dict.fromkeys(PODS, 10)


def test_wrr_goes_round_by_weight(ground, service):
    address = service("wrr", UNEVEN)
    assert ground.who_answers(30, "client1", address) == {"web1": 15, "web2": 10, "web3": 5}


@pytest.mark.parametrize("scheduler", ["lc", "wlc", "sed", "nq"])
def test_open_connections_are_spread_evenly_where_weights_are_even(ground, service, scheduler):
    with open_connections(ground, service(scheduler), 12) as held:
        assert held == dict.fromkeys(PODS, 4)


def test_lc_takes_the_one_with_the_fewest_open_connections(ground, service):
    """Whatever the weights are."""
    address = service("lc", UNEVEN)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(ground.connect("client1", address)) for _ in range(9)]
        assert collections.Counter(one.pod for one in held) == dict.fromkeys(PODS, 3)
        for one in held:
            if one.pod == "web2":
                one.reset()
        server = f"TCP {address}:80"
        lab.wait_for(lambda: ground.real(server, "web2").active == 0, "its connections are over")
        with open_connections(ground, address, 3) as more:
            assert more == {"web2": 3}


@pytest.mark.parametrize("scheduler", ["wlc", "sed", "nq"])
def test_open_connections_are_spread_by_weight(ground, service, scheduler):
    with open_connections(ground, service(scheduler, UNEVEN), 30) as held:
        assert held["web1"] > held["web2"] > held["web3"] > 0
        assert abs(held["web1"] - 15) <= 2 and abs(held["web3"] - 5) <= 2


@pytest.mark.parametrize("scheduler", ["lblc", "lblcr", "dh"])
def test_one_destination_keeps_its_server(ground, service, scheduler):
    """These look at the destination, which is one and the same for a Service."""
    assert len(ground.who_answers(12, "client1", service(scheduler))) == 1


def test_sh_gives_a_client_always_the_same_server(ground, service):
    address = service("sh")
    sources = [ground.cluster["client1"].ipv4, *ground.sources]
    first = {source: ground.who_answers(3, "client1", address, source=source) for source in sources}
    assert all(len(pods) == 1 for pods in first.values()), first
    assert {pod for pods in first.values() for pod in pods} == set(PODS), first


def test_mh_spreads_by_address_and_port_of_the_client(ground, service):
    """Its flag mh-port is set, as the original does: one client may reach all servers, but a port always the same."""
    address = service("mh")
    assert f"-A -t {address}:80 -s mh -b mh-port" in ground.run("ipvsadm", "-Sn")
    assert set(ground.who_answers(40, "client1", address)) == set(PODS)
    for port in (40001, 40002):
        assert len({_from_port(ground, address, port) for _ in range(3)}) == 1


def test_fo_takes_the_one_of_highest_weight(ground, service):
    address = service("fo", {"web1": 1, "web2": 7, "web3": 3})
    assert ground.who_answers(10, "client1", address) == {"web2": 10}
    # Weight 0: not this one.
    number = address.rpartition(".")[2]
    weights = {"web1": 1, "web2": 0, "web3": 3}
    ground.put_service(f"s{number}", address, annotations={SCHEDULER: "fo", WEIGHTS: weights_of(ground, weights)})
    ground.wait_weights(f"TCP {address}:80", weights)
    assert ground.who_answers(10, "client1", address) == {"web3": 10}


def test_ovf_fills_the_one_of_highest_weight_and_then_the_next(ground, service):
    """One that has more connections than its weight is full."""
    with open_connections(ground, service("ovf", UNEVEN), 9) as held:
        assert held == {pod: weight + 1 for pod, weight in UNEVEN.items()}


def test_a_service_without_the_annotation_has_the_default(ground):
    ground.put_service("plain", "10.96.2.250")
    ground.wait_weights("TCP 10.96.2.250:80", dict.fromkeys(PODS, 1))
    assert ground.servers()["TCP 10.96.2.250:80"].scheduler == "rr"


def test_the_annotation_may_come_and_go(ground):
    """The virtual server is changed where it is: connections stay."""
    server = "TCP 10.96.2.251:80"
    ground.put_service("changes", "10.96.2.251")
    ground.wait_weights(server, dict.fromkeys(PODS, 1))
    with ground.connect("client1", "10.96.2.251") as kept:
        for annotations, scheduler in [({SCHEDULER: "sh"}, "sh"), ({}, "rr")]:
            ground.put_service("changes", "10.96.2.251", annotations=annotations)
            lab.wait_for(lambda scheduler=scheduler: ground.servers()[server].scheduler == scheduler, f"the scheduler is {scheduler}")
        assert kept.still_works()


@pytest.mark.parametrize(("annotation", "value"), [
    (SCHEDULER, "no_such"), (SCHEDULER, "Not A Name"), (WEIGHTS, "10.244.1.3=70000"), (WEIGHTS, "nonsense")])
def test_a_wrong_value_is_told_and_the_default_used(ground, numbers, annotation, value):
    number = next(numbers)
    ground.put_service(f"wrong{number}", f"10.96.2.{number}", annotations={annotation: value})
    server = SERVER.format(number)
    ground.wait_weights(server, dict.fromkeys(PODS, 1))
    assert ground.servers()[server].scheduler == "rr"
    word = value.split("=")[-1]
    lab.wait_for(lambda: [line for line in ground.daemon.log_text().splitlines()
                          if f"default/wrong{number}" in line and word in line], "it is told")


def test_a_wrong_value_is_an_event_of_the_service():
    with Ground(source="api") as other:
        other.start()
        other.put_service("wrong", "10.96.2.1", annotations={SCHEDULER: "no_such"})
        other.wait_weights("TCP 10.96.2.1:80", dict.fromkeys(PODS, 1), 60)

        def told():
            return [body for method, path, _, body in other.objects.server.requests
                    if method == "POST" and path.endswith("/events") and b"no_such" in body and b'"Service"' in body]

        lab.wait_for(told, "there is an event")


@pytest.mark.parametrize("scheduler", ["wlc", "sh", "mh"])
def test_the_flag_gives_all_services_a_scheduler(ground, scheduler):
    ground.clear()
    ground.put_service("flag", "10.96.2.252")
    ground.put_service("own", "10.96.2.253", annotations={SCHEDULER: "rr"})
    ground.start(config={"ipvs": {"scheduler": scheduler}})
    ground.wait_weights("TCP 10.96.2.252:80", dict.fromkeys(PODS, 1), 60)
    ground.wait_weights("TCP 10.96.2.253:80", dict.fromkeys(PODS, 1), 60)
    servers = ground.servers()
    assert servers["TCP 10.96.2.252:80"].scheduler == scheduler
    assert servers["TCP 10.96.2.253:80"].scheduler == "rr"


def test_a_scheduler_that_the_kernel_lacks_ends_the_proxy(ground):
    ground.clear()
    daemon = ground.start(config={"ipvs": {"scheduler": "no-such"}})
    lab.wait_for(lambda: not daemon.running(), "kube-proxy ends")
    assert daemon.stop() == 1
    said = [line for line in daemon.log_text().splitlines() if "can't use the IPVS proxier: " in line]
    assert said, daemon.log_text()
    assert "no-such" in said[-1]
    assert all(f"{name}" in said[-1] for name in ("rr", "wrr", "lblcr", "mh")), said[-1]


def _from_port(ground, address, port):
    with ground.connect("client1", address, source_port=port) as one:
        pod = one.pod
        one.reset()  # or the port is taken for a minute
    return pod
