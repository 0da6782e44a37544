"""The objects of a real API server that two proxies are measured with, one beside the other."""

import base64
import contextlib
import http.client
import json
import re
import socket
import uuid

import lab
from controlplane.client import ApiError, path_of
from controlplane.plane import ETCD_PORT
from lab import objects
from lab.daemon import merge
from node import METRICS_PORT, SYNCS

# A zero stands for the default of mode nftables: a second in the original, and no wait at all in ours.
PERIODS = {"iptables": {"syncPeriod": "30s", "minSyncPeriod": "1s"},
           "nftables": {"syncPeriod": "30s", "minSyncPeriod": "0s"}}
_LAST_SYNC = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"
_KEYS = {"Service": "/registry/services/specs/default/", "EndpointSlice": "/registry/endpointslices/default/",
         "IPAddress": "/registry/ipaddresses/"}
_AT_ONCE = 40  # services; etcd takes 128 keys in a transaction


def service_of(number):
    """An address of its own for each of 900,000."""
    address = f"10.{97 + number // 62500}.{number // 250 % 250}.{number % 250 + 2}"
    return objects.service(f"web-{number}", address, [objects.port(80)])


def slice_of(number, endpoints, turn=0):
    """The endpoints of a service, seventy at most; the first moves with every turn."""
    low, high = number % 250, number // 250
    addresses = [f"10.{128 + e}.{high}.{low + 1}" for e in range(endpoints)]
    addresses[0] = f"10.{200 + turn % 50}.{high}.{low + 1}"
    return objects.endpoint_slice(f"web-{number}", [objects.endpoint(one, "node2") for one in addresses], [objects.port(8080)])


def _address_of(service):
    """By which the API server knows that the address is taken."""
    return {"kind": "IPAddress", "metadata": {"name": service["spec"]["clusterIP"]},
            "spec": {"parentRef": {"name": service["metadata"]["name"]}}}


def fill(plane, numbers, endpoints):
    """Puts these services into the API: the first as anybody would, the others straight into etcd, as copies of what the
    API server made of that one. For each that it is asked to create it looks at the addresses of all that there are:
    20,000 in that way took seven minutes."""
    def of(number):
        service = service_of(number)
        return service, slice_of(number, endpoints), _address_of(service)

    first, *others = numbers
    for one in of(first)[:2]:
        plane.admin.create(one)
    models = [plane.admin.get(one) for one in of(first)]
    with contextlib.closing(_etcd(plane)) as etcd:
        for at in range(0, len(others), _AT_ONCE):
            made = [_copy(model, one) for number in others[at:at + _AT_ONCE]
                    for model, one in zip(models, of(number), strict=True)]
            _store(etcd, made)
    for one in of(numbers[-1])[:2]:
        lab.wait_for(lambda one=one: _shown(plane, one), "the API server shows what etcd holds", 120)


def _copy(model, one):
    made = merge(model, one)
    made["metadata"] = {key: value for key, value in made["metadata"].items() if key != "resourceVersion"}
    made["metadata"]["uid"] = str(uuid.uuid4())
    return made


def _etcd(plane):
    connection = http.client.HTTPConnection("127.0.0.1", ETCD_PORT, timeout=30)
    connection.sock = plane.netns.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.sock.connect(("127.0.0.1", ETCD_PORT))
    return connection


def _store(etcd, made):
    def encoded(text):
        return base64.b64encode(text.encode()).decode()

    puts = [{"requestPut": {"key": encoded(_KEYS[one["kind"]] + one["metadata"]["name"]), "value": encoded(json.dumps(one))}}
            for one in made]
    etcd.request("POST", "/v3/kv/txn", json.dumps({"success": puts}))
    answer = etcd.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"etcd: {text.decode()}")


def _shown(plane, one):
    """Has the API server seen it? With version 0 it tells what it remembers, which is where a watch begins."""
    try:
        return plane.admin.call("GET", path_of(one) + "?resourceVersion=0")
    except ApiError as error:
        if error.code != 404:
            raise
        return None


def first_sync(netns):
    """When both families of the proxy in there had synced; None before that. Asked seldom, as answering costs it time."""
    try:
        text = lab.client.page(netns, METRICS_PORT, "/metrics")
    except OSError:
        return None
    done = re.findall(SYNCS + r'\{ip_family="\w+"\} [1-9]', text)
    return max(map(float, re.findall(_LAST_SYNC + r"\{.*\} (\S+)", text))) if len(done) == 2 else None
