"""etcd and kube-apiserver in a network namespace of their own, and the links that lead there.

Every fabric (a namespace that holds 172.31.0.1, such as that of a lab.Cluster) may be attached: its nodes then find
the API server at 172.31.0.1:13143. Several fabrics may have the very same addresses, so that two nodes called node1
see one API server at the same time.

        node1 172.31.0.11 ── fabric 172.31.0.1 ──(DNAT, link)──┐
                                                               ├── api: kube-apiserver :13143, etcd 127.0.0.1:2379
        node1 172.31.0.11 ── fabric 172.31.0.1 ──(DNAT, link)──┘
"""

import base64
import contextlib
import http.client
import ipaddress
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

import lab
from lab.cluster import SERVICE_CIDRS
from lab.netns import Netns
from lab.process import Process

from controlplane import credentials
from controlplane.client import ApiError, Client
from controlplane.programs import Unavailable, built

ADDRESS = "172.31.0.1"
PORT = 13143
ETCD_PORT = 2379
ISSUER = "https://kubernetes.default.svc.cluster.local"
# Wider than Kubernetes' default, as tests also want ports that nothing else is given.
NODE_PORTS = "9000-32767"
_SERVER_NAMES = ["DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc", "DNS:localhost",
                 f"IP:{ADDRESS}", "IP:127.0.0.1", "IP:10.96.0.1"]
# What tests leave behind. ServiceCIDRs come last: one that is in use stays.
_WIPED = ("Service", "EndpointSlice", "Node", "ServiceCIDR")
# What the API server itself makes, and makes again.
_ITS_OWN = {("Service", "kubernetes"), ("EndpointSlice", "kubernetes"), ("ServiceCIDR", "kubernetes")}


def missing_capabilities():
    """What this machine lacks to run a control plane, as a list of short sentences; empty when all is there."""
    lacks = lab.missing_capabilities()
    if not shutil.which("openssl"):
        lacks.append("the program openssl")
    try:
        built()
    except Unavailable as error:
        lacks.append(str(error))
    return lacks


class Link:
    """The way from one fabric to the API server."""

    def __init__(self, plane, fabric, number):
        self.fabric = fabric
        self.address = there = f"10.255.{number}.1"  # reachable as well, but not a name of the server's certificate
        here = f"10.255.{number}.2"
        plane.netns.ip(f"link add name fabric{number} type veth peer name api netns {fabric.name}",
                       f"address add {there}/30 dev fabric{number}", f"link set fabric{number} up")
        fabric.ip(f"address add {here}/30 dev api", "link set api up")
        fabric.sysctl({"ipv4/ip_forward": 1})
        reach = f"-d {ADDRESS}/32 -p tcp --dport {PORT} -j DNAT --to-destination {there}:{PORT}"
        self._rules("*nat", f"-A PREROUTING {reach}", f"-A OUTPUT {reach}", "-A POSTROUTING -o api -j MASQUERADE")

    def cut(self):
        """Drops every packet in both directions, in silence: nobody is told that the other end is gone."""
        self._rules("*filter", "-A FORWARD -i api -j DROP", "-A FORWARD -o api -j DROP")

    def mend(self):
        self._rules("*filter", "-F FORWARD")

    def _rules(self, *lines):
        text = "\n".join([*lines, "COMMIT", ""])
        subprocess.run(["ip", "netns", "exec", self.fabric.name, "iptables-restore", "-w", "5", "--noflush"],
                       input=text, text=True, check=True)


class ControlPlane:
    """Starts at once and is ready when the constructor returns; close() removes everything.

    `admin` is a quick client that may do anything; kubectl() is the real program with the same rights. `state` is a
    temporary folder with credentials and logs.
    """

    def __init__(self, binaries, prefix="kpc"):
        lab.sweep(prefix)
        self._binaries = binaries
        self._links = 0
        self.state = pathlib.Path(tempfile.mkdtemp(prefix=f"{prefix}-{os.getpid()}-"))
        self.netns = None
        self.etcd = Process("etcd", self.state / "etcd.log")
        self.apiserver = Process("kube-apiserver", self.state / "kube-apiserver.log")
        try:
            self._build(f"{prefix}-{os.getpid()}-api")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends what was started here and removes it. May be called twice."""
        for process in (self.apiserver, self.etcd):
            process.kill()
        if self.netns:
            with contextlib.suppress(RuntimeError, OSError):
                self.netns.close()
        self.netns = None
        shutil.rmtree(self.state, ignore_errors=True)

    # Reaching it

    def attach(self, fabric):
        """Makes nodes behind `fabric` find the API server at ADDRESS:PORT. The link goes away with the fabric."""
        self._links += 1
        return Link(self, fabric, self._links)

    def kubeconfig(self, name, server=f"https://{ADDRESS}:{PORT}", authority=None, **user):
        """The path of a kubeconfig. Its user is system:kube-proxy, who has the rights that RBAC gives to a real one, or
        for "admin" one who may do anything, unless `user` says something else; see credentials.kubeconfig()."""
        if not user:
            certificate = self.credentials.admin if name == "admin" else self._proxy
            user = dict(zip(("client_certificate", "client_key"), certificate, strict=True))
        return credentials.kubeconfig(self.state / f"{name}.kubeconfig", server,
                                      authority or self.credentials.authority.certificate, **user)

    def command(self, argv):
        """The command line that runs argv beside the API server."""
        return ["ip", "netns", "exec", self.netns.name, *map(str, argv)]

    def kubectl(self, *arguments, input=None, check=True):
        """Runs kubectl with all rights and returns the CompletedProcess; raises with its words when it fails."""
        argv = [self._binaries.path("kubectl"), f"--kubeconfig={self.kubectl_config}",
                f"--cache-dir={self.state / 'kubectl-cache'}", *arguments]
        done = subprocess.run(self.command(argv), input=input, text=True, capture_output=True, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done

    def token(self, namespace, name, seconds):
        """A token of a ServiceAccount, which is made when need be."""
        account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace}}
        self.need_namespaces(account)
        uid = self.admin.apply(account)["metadata"]["uid"]
        return self.credentials.token(namespace, name, uid, ISSUER, seconds)

    def make_proxy(self, namespace, name):
        """Gives a ServiceAccount the rights of a kube-proxy, as kubeadm does."""
        rbac = "rbac.authorization.k8s.io"
        self.admin.put({
            "apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": f"proxy:{namespace}:{name}"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:node-proxier"},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}]})

    # What it holds

    def need_namespaces(self, *objects):
        """Creates the namespaces that these objects live in."""
        for name in {one["metadata"].get("namespace", "default") for one in objects}:
            if name not in self._namespaces:
                self.admin.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
                self._namespaces.add(name)

    def put(self, *objects):
        """Creates or changes objects, in namespaces that may be new."""
        self.need_namespaces(*objects)
        self.admin.put(*objects)

    def add_service_cidr(self, name, *cidrs):
        """More addresses for Services; returns once they are given out."""
        self.admin.put({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name},
                        "spec": {"cidrs": list(cidrs)}})
        for cidr in cidrs:
            lab.wait_for(lambda cidr=cidr: self._given_out(cidr), f"the addresses {cidr} are given out")

    def objects(self):
        """Everything that a proxy watches."""
        return [one for kind in _WIPED for one in self.admin.list(kind)]

    def wipe(self):
        """Deletes everything that a proxy watches, but for what the API server made itself."""
        self.admin.delete(*(one for one in self.objects() if (one["kind"], one["metadata"]["name"]) not in _ITS_OWN))
        # An API server that is killed while it creates a Service leaves the address behind, and nobody can have it.
        self.admin.delete(*(one for one in self.admin.list("IPAddress") if one["spec"]["parentRef"]["name"] != "kubernetes"))

    # Its life

    def start_etcd(self):
        url = f"http://127.0.0.1:{ETCD_PORT}"
        self.etcd.launch(self.command([
            self._binaries.path("etcd"), "--data-dir", self.state / "etcd", "--unsafe-no-fsync",
            "--listen-client-urls", url, "--advertise-client-urls", url,
            "--listen-peer-urls", "http://127.0.0.1:2380", "--log-level", "warn"]))

    def start_apiserver(self, *flags):
        """`flags` are added to those that it always has."""
        files, key = self.credentials, self.credentials.service_account_key
        self.apiserver.launch(self.command([
            self._binaries.path("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}", "--etcd-compaction-interval=0",
            "--bind-address=0.0.0.0", f"--secure-port={PORT}", f"--advertise-address={ADDRESS}",
            f"--tls-cert-file={files.server[0]}", f"--tls-private-key-file={files.server[1]}",
            f"--client-ca-file={files.authority.certificate}", "--authorization-mode=RBAC",
            "--allow-privileged=true",  # as every cluster has it; kube-proxy's own pod is privileged
            f"--service-account-issuer={ISSUER}", f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--service-cluster-ip-range={','.join(SERVICE_CIDRS)}", f"--service-node-port-range={NODE_PORTS}",
            *flags]))

    def wait_ready(self, seconds=60.0):
        """Waits until the API server says that it is ready, its own objects included."""
        lab.wait_for(self._ready, "kube-apiserver is ready", seconds, every=0.1)

    def restart_apiserver(self):
        """Kills it and starts it again."""
        self.apiserver.kill()
        self.start_apiserver()
        self.wait_ready()

    def compact(self):
        """Makes etcd forget every version of every object but the newest."""
        revision = self._ask_etcd("range", {"key": base64.b64encode(b"/").decode()})["header"]["revision"]
        self._ask_etcd("compaction", {"revision": revision, "physical": True})

    def _build(self, name):
        self.credentials = credentials.Credentials(self.state / "credentials", _SERVER_NAMES)
        self._proxy = self.credentials.authority.issue(self.state / "kube-proxy", "/CN=system:kube-proxy")
        self._namespaces = {"default", "kube-system"}
        self.kubectl_config = self.kubeconfig("admin", server=f"https://127.0.0.1:{PORT}")
        self.netns = Netns(name)
        self.netns.ip("link set lo up")
        self.admin = Client(self.netns, "127.0.0.1", PORT, self.credentials.authority.certificate, self.credentials.admin)
        self.start_etcd()
        self.start_apiserver()
        self.wait_ready()

    def _ready(self):
        for process in (self.etcd, self.apiserver):
            if not process.running():
                raise RuntimeError(f"{process.name} has ended:\n{process.log_text()[-3000:]}")
        with contextlib.suppress(OSError, ApiError, http.client.HTTPException):
            self.admin.call("GET", "/readyz")
            return self.admin.get({"kind": "Service", "metadata": {"name": "kubernetes"}}) is not None
        return False

    def _given_out(self, cidr):
        """Would the API server accept a Service with an address of this network?"""
        address = str(ipaddress.ip_network(cidr)[-2])
        trial = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "trial"},
                 "spec": {"clusterIP": address, "ports": [{"port": 80}]}}
        try:
            self.admin.call("POST", "/api/v1/namespaces/default/services?dryRun=All", trial)
        except ApiError as error:
            if error.code != 422:
                raise
            return False
        return True

    def _ask_etcd(self, what, question):
        connection = http.client.HTTPConnection("127.0.0.1", ETCD_PORT, timeout=10)
        connection.sock = self.netns.socket(socket.AF_INET, socket.SOCK_STREAM)
        with contextlib.closing(connection):
            connection.sock.connect(("127.0.0.1", ETCD_PORT))
            connection.request("POST", f"/v3/kv/{what}", json.dumps(question))
            answer = connection.getresponse()
            text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"etcd: {what}: {text.decode()}")
        return json.loads(text)
