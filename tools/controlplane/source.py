"""The API server as the source of a lab.Daemon, with the interface of lab.Manifests."""

import json

from lab import objects

from controlplane.client import WITH_STATUS, without_status

_OF_CLUSTER_IPS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")


class Source:
    """What a Daemon needs to read from the API server that a kubeconfig names."""

    def __init__(self, kubeconfig):
        self.flags = []
        self.config = {"clientConnection": {"kubeconfig": str(kubeconfig)}}


class Objects(Source):
    """Objects that are created, changed and deleted with kubectl, as a person does it."""

    def __init__(self, plane):
        super().__init__(plane.kubeconfig("kube-proxy"))
        self._plane = plane
        self._objects = {}

    def put(self, *made):
        """Creates or changes objects, all with one kubectl apply."""
        changed = [one for one in made if self._objects.get(objects.key(one)) != one]
        if not changed:
            return
        self.delete(*(objects.key(one) for one in changed if self._moves(one)))
        self._plane.need_namespaces(*changed)
        # On the server: on this side, kubectl takes two ports of one number for one.
        self._plane.kubectl("apply", "--server-side", "-f", "-", input=_as_list(changed))
        for one in changed:
            if one["kind"] in WITH_STATUS:
                self._plane.admin.put_status(one)
            self._objects[objects.key(one)] = one

    def delete(self, *keys):
        """Deletes objects, each given by (kind, namespace, name), all with one kubectl delete."""
        if keys:
            gone = [self._objects.pop(key) for key in keys]
            self._plane.kubectl("delete", "--now", "-f", "-", input=_as_list(gone))

    def replace(self, made):
        """Makes the API hold exactly these objects beside its own."""
        wanted = {objects.key(one) for one in made}
        # First, as what goes may hold an address or a port that what comes is to have.
        self.delete(*(key for key in list(self._objects) if key not in wanted))
        self.put(*made)

    def _moves(self, one):
        """Does it ask for another cluster IP than it has? The API gives one for life."""
        had, wants = (each.get("spec", {}).get("clusterIP") for each in (self._objects.get(objects.key(one), {}), one))
        return bool(had and wants and had != wants)


def _as_list(made):
    """For kubectl's standard input. The order is kept."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [_acceptable(one) for one in made]})


def _acceptable(one):
    """The object without what the API refuses: a status, and addresses of a Service that is only a name."""
    made = without_status(one)
    if made.get("spec", {}).get("type") == "ExternalName":
        made["spec"] = {key: value for key, value in made["spec"].items() if key not in _OF_CLUSTER_IPS}
    return made
