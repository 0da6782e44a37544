"""Kubernetes objects as dictionaries, with the fields the API server would have filled in."""


def port(number, protocol="TCP", name="", node_port=None, target=None):
    """A port of a Service or, without node_port and target, of an EndpointSlice."""
    made = {"name": name, "port": number, "protocol": protocol}
    if target is not None:
        made["targetPort"] = target
    if node_port is not None:
        made["nodePort"] = node_port
    return made


def service(name, cluster_ips, ports, type="ClusterIP", namespace="default", labels=None, load_balancer_ips=(), **spec):
    """A Service. cluster_ips is one address or a list of one per family; spec takes any other field of .spec."""
    ips = [cluster_ips] if isinstance(cluster_ips, str) else list(cluster_ips)
    families = ["IPv6" if ":" in ip else "IPv4" for ip in ips if ip != "None"]
    body = {"type": type, "ports": ports, "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", **spec}
    if type in ("NodePort", "LoadBalancer"):
        body.setdefault("externalTrafficPolicy", "Cluster")
    if ips:
        body |= {"clusterIP": ips[0], "clusterIPs": ips, "ipFamilies": families,
                 "ipFamilyPolicy": "RequireDualStack" if len(families) == 2 else "SingleStack"}
    status = {"loadBalancer": {"ingress": [{"ip": ip, "ipMode": "VIP"} for ip in load_balancer_ips]}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(name, namespace, labels),
            "spec": body, "status": status if load_balancer_ips else {"loadBalancer": {}}}


def endpoint(address, node=None, zone=None, ready=True, serving=True, terminating=False, target=None,
             for_zones=(), for_nodes=()):
    """One endpoint of an EndpointSlice. A terminating one is never ready unless ready=True is said explicitly."""
    made = {"addresses": [address],
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating}}
    if node:
        made["nodeName"] = node
    if zone:
        made["zone"] = zone
    if target:
        made["targetRef"] = {"kind": "Pod", "namespace": "default", "name": target}
    hints = {}
    if for_zones:
        hints["forZones"] = [{"name": zone} for zone in for_zones]
    if for_nodes:
        hints["forNodes"] = [{"name": node} for node in for_nodes]
    return {**made, "hints": hints} if hints else made


def endpoint_slice(service_name, endpoints, ports, suffix="a", namespace="default", labels=None):
    """An EndpointSlice of a Service. `suffix` tells several slices of one Service apart."""
    version = "IPv6" if endpoints and ":" in endpoints[0]["addresses"][0] else "IPv4"
    labels = {"kubernetes.io/service-name": service_name, **(labels or {})}
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": _metadata(f"{service_name}-{suffix}", namespace, labels),
            "addressType": version, "endpoints": endpoints, "ports": ports}


def node(name, addresses, pod_cidrs, zone=None):
    """A Node. The first address is its primary one."""
    labels = {"kubernetes.io/hostname": name}
    if zone:
        labels["topology.kubernetes.io/zone"] = zone
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"podCIDR": pod_cidrs[0], "podCIDRs": pod_cidrs},
            "status": {"addresses": [{"type": "InternalIP", "address": a} for a in addresses]}}


def key(made):
    """What tells an object from all others."""
    return made["kind"], made["metadata"].get("namespace", ""), made["metadata"]["name"]


def _metadata(name, namespace, labels):
    return {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})}
