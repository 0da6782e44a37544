"""An API server for tests as the source of a lab.Daemon."""

import json


class ApiSource:
    """Reads from `server`, a fake_api.FakeApi; what else a Daemon needs is written into the folder of the cluster."""

    def __init__(self, cluster, server):
        cluster.adopt(server)
        kubeconfig = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
                      "clusters": [{"name": "k", "cluster": {"server": server.url}}],
                      "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}
        path = cluster.state / "kubeconfig"
        path.write_text(json.dumps(kubeconfig), encoding="utf-8")
        self.flags = []
        self.config = {"clientConnection": {"kubeconfig": str(path)}}
