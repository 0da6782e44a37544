"""The way of a connection through the rules of the iptables mode, each rule with a sentence on what it does."""

import re


def chain_rules(saved, chain):
    """The rules of a chain of the nat table, from the text of iptables-save."""
    nat = saved.partition("*nat\n")[2].partition("COMMIT")[0]
    return [line for line in nat.splitlines() if line.startswith(f"-A {chain} ")]


def jump(rule):
    """Where a rule sends a packet: a chain, or a target such as DNAT."""
    return re.search(r" -[jg] (\S+)", rule)[1]


def steps(saved, service, what="cluster IP"):
    """(heading, [(rule, sentence)]) for each chain that a connection to a Service meets, in order.

    `service` is NAMESPACE/NAME:PORTNAME, as the comments of the rules have it.
    """
    entry = [r for r in chain_rules(saved, "KUBE-SERVICES") if f'"{service} {what}"' in r]
    yield "The entrance", [
        (rule, "Every packet that a pod of this node or another machine sends looks up the Services first.")
        for rule in chain_rules(saved, "PREROUTING") if jump(rule) == "KUBE-SERVICES"]
    yield "The Service is found", [
        (rule, "This address and port: on to the Service's own chain. Other packets try the next line.") for rule in entry]
    service_chain = jump(entry[0])
    yield "The dice", [(rule, explain_choice(rule)) for rule in chain_rules(saved, service_chain)]
    endpoints = [jump(r) for r in chain_rules(saved, service_chain) if jump(r).startswith("KUBE-SEP-")]
    yield "The pod (one chain for each; here is the first)", [
        (rule, explain_endpoint(rule)) for rule in chain_rules(saved, endpoints[0])]
    yield "On the way out", [(rule, explain_exit(rule)) for rule in chain_rules(saved, "KUBE-POSTROUTING")]


def explain_choice(rule):
    if jump(rule) == "KUBE-MARK-MASQ":
        return ("A client that is not a pod gets a mark, which makes the last chain below replace its address. "
                "The packet goes on with the next line.")
    if probability := re.search(r"--probability ([0-9.]+)", rule):
        return f"One connection in {round(1 / float(probability[1]), 1):g} goes to this pod."
    return "What no line above has taken goes to the last pod: no dice needed."


def explain_endpoint(rule):
    if jump(rule) == "KUBE-MARK-MASQ":
        return "A pod that reaches itself by its own Service is marked, too: packets from itself to itself get lost."
    return ("The destination becomes the pod. The kernel remembers that for the whole connection, and turns the "
            "source of the answers back into the Service's address.")


def explain_exit(rule):
    if jump(rule) == "RETURN":
        return "Without the mark, that was all: the pod sees the client's own address."
    if jump(rule) == "MARK":
        return "The mark is taken off,"
    return "and the source becomes this node's address, so that the answer comes back here."
