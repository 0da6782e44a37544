"""The show itself: five scenes and a clean stage."""

import collections
import dataclasses
import itertools
import time

import lab
from demo import bank, follow, page, traffic
from demo.traffic import Target

SUMMARY = Target("client1", "summary", "cluster IP", "10.101.36.113", 80)
TARGETS = [
    SUMMARY,
    Target("client1", "database", "cluster IP", "10.101.33.51", 2379),
    Target("client2", "kube-dns", "cluster IP", "10.96.0.10", 53, "udp"),
    Target("ext1", "customer", "node port", "172.31.0.12", 30180, note="of node2, which runs no pod of it"),
    Target("ext1", "traefik", "load balancer", "203.0.113.10", 80),
]
STRANGER = Target("ext2", "traefik", "load balancer", "203.0.113.10", 80)
REQUESTS = 100
PHASE_S = 1.5
# The kernel features that the iptables mode stands on, one rule each.
FEATURES = {
    "comments on rules": "-t nat -A OUTPUT -m comment --comment probe -j RETURN",
    "random choice (xt_statistic)": "-t nat -A OUTPUT -m statistic --mode random --probability 0.5 -j RETURN",
    "kinds of addresses (xt_addrtype)": "-t nat -A OUTPUT -m addrtype --dst-type LOCAL -j RETURN",
    "marks (xt_mark)": "-t nat -A OUTPUT -j MARK --or-mark 0x4000",
    "states of connections (xt_conntrack)": "-A OUTPUT -m conntrack --ctstate INVALID -j DROP",
    "destination NAT": "-t nat -A OUTPUT -d 192.0.2.1 -p tcp -j DNAT --to-destination 192.0.2.2:80",
    "masquerading": "-t nat -A POSTROUTING -d 192.0.2.1 -j MASQUERADE",
}


class Failed(Exception):
    """Something that the show promises did not happen."""


class KernelLacks(Exception):
    """The kernel cannot do what the proxy needs."""


def run():
    with opened() as stage:
        perform(stage)
        began = time.monotonic()
    page.heading(6, "The stage is empty again")
    page.done("proxies ended, namespaces and rules removed", began)
    page.say()
    page.prose("make run KEEP=1 leaves it up, to play with. How it works: docs/architecture.md", "")
    return 0


def run_and_keep(kept):
    with opened() as stage:
        perform(stage)
        stage.reopen("summary-3")
        page.heading(6, "It stays up, for you to play with")
        say_how_to_play(stage)
        kept()
    return 0


def perform(stage):
    try:
        start(stage)
        ask_everybody(stage)
        follow_one(stage)
        scale(stage)
    except (Failed, lab.NotInTime) as error:
        raise Failed(f"{error}\n{last_words(stage)}") from error


def last_words(stage, lines=8):
    """The end of each proxy's log: it is removed with everything else."""
    said = []
    for node, daemon in stage.daemons.items():
        state = "running" if daemon.running() else "ended"
        said.append(f"The proxy on {node} ({state}) said last:")
        said += [f"  {line}" for line in daemon.log_text().splitlines()[-lines:]]
    return "\n".join(said)


# 1

def opened():
    """The stage with nodes and open pods on it, as a context."""
    page.say(page.paint("kube-proxy at work: an online bank on two nodes", "bold"))
    page.prose("Nodes, pods and clients are network namespaces of this machine: the packets, the rules and the "
               "kernel are real; nothing outside of the namespaces is touched.")
    page.heading(1, "A cluster")
    began = time.monotonic()
    stage = bank.Bank()
    try:
        check_kernel(stage)
        stage.open_pods()
    except BaseException:
        stage.close()
        raise
    print_map(stage.cluster)
    page.done("built", began)
    return stage


def print_map(cluster):
    """Who is where: a column for each node with its pods, and one for the clients outside."""
    members = list(cluster.members.values())
    columns = [[f"{node} {cluster.address(node)}"] + [f"  {m.name:<11} {m.ipv4}" for m in members
                                                      if m.kind == "pod" and m.node == node]
               for node in cluster.nodes()]
    columns.append(["outside"] + [f"  {m.name:<5} {m.ipv4}" for m in members if m.kind == "outsider"])
    for cells in itertools.zip_longest(*columns, fillvalue=""):
        page.say("   " + "".join(f"{cell:<32}" for cell in cells).rstrip())


def check_kernel(stage):
    """Tries each feature in a namespace that needs none of them, so that what is missing has a name."""
    lacks = []
    for feature, rule in FEATURES.items():
        tried = stage.cluster.run("ext1", ["xtables-nft-multi", "iptables", *rule.split()])
        if tried.returncode != 0:
            lacks.append(f"{feature}: {tried.stderr.strip()}")
    for table in ("nat", "filter"):
        stage.cluster.run("ext1", ["xtables-nft-multi", "iptables", "-t", table, "-F"])
    if lacks:
        raise KernelLacks("this kernel lacks what the iptables mode needs:\n  " + "\n  ".join(lacks))


# 2

def start(stage):
    page.heading(2, "The proxy, on both nodes")
    page.prose("It reads Services and endpoints from a folder of manifests (a copy of examples/bank) and keeps "
               "the rules of its node in step with it.")
    began = time.monotonic()
    stage.start_proxies()
    page.code("kube-proxy --config=kube-proxy-node1.yaml --manifests=manifests")
    for node in bank.NODES:
        wait_until_synced(stage, node)
        saved = stage.rules(node)
        rules = sum(line.startswith("-A KUBE-") for line in saved.splitlines())
        page.done(f"{node}: {rules} rules in the kernel", began)


def wait_until_synced(stage, node):
    """The last endpoints of the manifests are in the kernel, so everything is: a sync is one transaction."""
    last = ("10.244.2.6:8443", "10.244.2.4:2379")
    wait_for_rules(stage, node, lambda saved: all(one in saved for one in last), "the rules of examples/bank")


def wait_for_rules(stage, node, condition, what):
    def reached():
        if dead := stage.ended_proxy():
            raise Failed(f"the proxy on {dead.node} has ended")
        return condition(stage.rules(node))
    lab.wait_for(reached, f"{node}: waiting for {what} in the kernel", 10)


# 3

def ask_everybody(stage):
    page.heading(3, f"Who answers? {REQUESTS} requests each, a new connection every time")
    page.prose("Behind each pod stands the address that it saw the requests come from: the client's own, or a "
               "node's, where the rules had to replace it so that the answers come back the same way.")
    for target in TARGETS:
        show_target(stage, target)
    count = traffic.ask(stage.cluster, STRANGER, 1)
    page.say()
    page.say(f"   {STRANGER.client} -> {STRANGER.service}, {STRANGER.kind} {STRANGER}")
    if count.answers:
        raise Failed(f"{STRANGER.client} got an answer, though loadBalancerSourceRanges does not have it")
    page.done("no answer, as it should be: loadBalancerSourceRanges lets only ext1 in, the rest is dropped")


def show_target(stage, target):
    count = traffic.ask(stage.cluster, target, REQUESTS)
    proto = " (UDP)" if target.proto == "udp" else ""
    page.say()
    page.say(f"   {target.client} -> {target.service}, {target.kind} {target}{proto}"
             + (f", {target.note}" if target.note else ""))
    notes = {pod: f"saw {who(stage, source)}" for pod, source in count.seen.items()}
    page.bars(count.answers, "        ", notes)
    if count.failures:
        raise Failed(f"{target.client} -> {target}: failed requests: {dict(count.failures)}")


def who(stage, address):
    """An address with the name of its owner. A node is seen where its rules masquerade."""
    for member in stage.cluster.members.values():
        if address in stage.cluster.addresses(member.name):
            kind = ", masqueraded" if member.kind == "node" else ""
            return f"{address} ({member.name}{kind})"
    return address


# 4

def follow_one(stage):
    page.heading(4, "One Service's way through the rules of node1: yaobank/summary")
    page.prose("As iptables-save prints them. A packet enters a chain, and tries its rules from the top.")
    for heading, rules in follow.steps(stage.rules("node1"), "yaobank/summary:http"):
        page.say()
        page.say(f"   {page.paint(heading, 'bold')}")
        for rule, sentence in rules:
            page.comment(sentence)
            page.code(rule)


# 5

def scale(stage):
    page.heading(5, "A third pod comes and goes, while requests run")
    clients = [SUMMARY, dataclasses.replace(SUMMARY, client="client2")]
    third = "10.244.2.7:80"
    with traffic.Load(stage.cluster, clients) as load:
        counts = [show_phase("two pods", load)]

        began = time.monotonic()
        stage.manifests.add(bank.EXAMPLES / "scale-up" / "summary-more.yaml")
        wait_for_endpoint(stage, third, True)
        page.done("summary-more.yaml copied into the folder: in the kernel of both nodes", began)
        counts += [load.phase(), show_phase("three pods", load)]

        began = time.monotonic()
        stage.manifests.remove("summary-more.yaml")
        wait_for_endpoint(stage, third, False)
        page.done("summary-more.yaml removed: out of the kernel of both nodes", began)
        stage.cluster.stop_serving("summary-3")
        page.done("summary-3 has ended")
        counts += [load.phase(), show_phase("two pods", load)]
    counts.append(load.phase())
    answered = sum(count.answers.total() for count in counts)
    failed = sum((count.failures for count in counts), collections.Counter())
    if failed:
        raise Failed(f"{failed.total()} requests failed while scaling, {answered} were answered: {dict(failed)}")
    page.done(f"{answered} requests in all, 0 failed")


def show_phase(name, load):
    """Counts for a while, prints it as a block of its own, and returns it."""
    count = load.run_for(PHASE_S)
    page.say()
    page.say(f"   {name}")
    page.bars(count.answers, "        ")
    page.say()
    return count


def wait_for_endpoint(stage, endpoint, present):
    for node in bank.NODES:
        wait_for_rules(stage, node, lambda saved: (endpoint in saved) == present, f"the change of {endpoint}")


# 6

def say_how_to_play(stage):
    folder = stage.manifests.folder
    node1, client1 = stage.namespace("node1"), stage.namespace("client1")
    rows = [
        ("tools/demo/ask client1 10.101.36.113:80", "one request from a pod to summary's cluster IP"),
        ("tools/demo/ask ext1 172.31.0.12:30180 -n 20", "twenty from outside to customer's node port"),
        (f"ip netns exec {client1} bash", "a shell in that pod (curl http://10.101.36.113/)"),
        (f"ip netns exec {node1} iptables-save -t nat | grep summary", "the rules of node1"),
        (f"cp examples/scale-up/summary-more.yaml {folder}/", "scale summary up"),
        (f"rm {folder}/summary-more.yaml", "and down"),
        (f"$EDITOR {folder}/summary.yaml", "change a Service: sessionAffinity: ClientIP, say"),
        (f"tail -f {stage.daemons['node1'].log}", "what the proxy of node1 says"),
        ("make run-stop", "end it all"),
    ]
    page.prose("As root, from the top folder of the repository:")
    for command, meaning in rows:
        page.say()
        page.say(f"   # {meaning}")
        page.code(command, "   ")
