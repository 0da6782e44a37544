"""Who may talk to the API server: certificates, tokens and the kubeconfigs that hold them.

Made with the openssl program, so that a test may also ask for something unusual: a certificate that ends in ten
seconds, one for another name, or one from a CA that nobody trusts.
"""

import base64
import datetime
import json
import pathlib
import subprocess
import time

_CA_CONFIG = """\
[ca]
default_ca = ours
[ours]
dir = {folder}
database = {folder}/index.txt
new_certs_dir = {folder}/issued
certificate = {folder}/ca.crt
private_key = {folder}/ca.key
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
rand_serial = yes
[any]
organizationName = optional
commonName = supplied
[req]
distinguished_name = empty
[empty]
"""

DAY_S = 24 * 3600


class Authority:
    """A certificate authority, in a folder of its own."""

    def __init__(self, folder, name):
        self.folder = pathlib.Path(folder)
        (self.folder / "issued").mkdir(parents=True)
        (self.folder / "index.txt").touch()
        self._config = self.folder / "openssl.cnf"
        self._config.write_text(_CA_CONFIG.format(folder=self.folder), encoding="utf-8")
        self.certificate = self.folder / "ca.crt"
        new_key(self.folder / "ca.key")
        _openssl("req", "-x509", "-new", "-config", self._config, "-key", self.folder / "ca.key", "-days", "30",
                 "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE",
                 "-addext", "keyUsage=critical,keyCertSign", "-out", self.certificate)

    def issue(self, stem, subject, names=(), seconds=DAY_S):
        """Writes STEM.crt and STEM.key for a subject such as "/O=group/CN=user"; names are subjectAltNames such as
        "IP:127.0.0.1". Each file is replaced in one step, the key first. Valid from a minute ago."""
        stem = pathlib.Path(stem)
        request = stem.with_suffix(".csr")
        key, certificate = stem.with_suffix(".key.new"), stem.with_suffix(".crt.new")
        new_key(key)
        extensions = ["-addext", "subjectAltName=" + ",".join(names)] if names else []
        _openssl("req", "-new", "-config", self._config, "-key", key, "-subj", subject, *extensions, "-out", request)
        now = time.time()
        _openssl("ca", "-batch", "-notext", "-config", self._config, "-in", request, "-out", certificate,
                 "-startdate", _asn1(now - 60), "-enddate", _asn1(now + seconds))
        key.rename(stem.with_suffix(".key"))
        certificate.rename(stem.with_suffix(".crt"))
        return stem.with_suffix(".crt"), stem.with_suffix(".key")


class Credentials:
    """Everything that one control plane needs, below `folder`."""

    def __init__(self, folder, server_names):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(self.folder / "ca", "control plane")
        self.server = self.authority.issue(self.folder / "server", "/CN=kube-apiserver", server_names)
        self.admin = self.authority.issue(self.folder / "admin", "/O=system:masters/CN=admin")
        self.service_account_key = self.folder / "service-account.key"
        # RSA, as its signatures come out of openssl in just the form that a token wants.
        _openssl("genrsa", "-out", self.service_account_key, "2048")

    def token(self, namespace, name, uid, issuer, seconds):
        """A ServiceAccount token that ends after so many seconds; the API hands out none below ten minutes."""
        now = int(time.time())
        claims = {"iss": issuer, "aud": [issuer], "sub": f"system:serviceaccount:{namespace}:{name}", "iat": now - 60,
                  "nbf": now - 60, "exp": now + seconds,
                  "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}}
        text = ".".join(_base64url(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
        signature = _openssl("dgst", "-sha256", "-sign", self.service_account_key, input=text.encode())
        return f"{text}.{_base64url(signature)}"


def kubeconfig(path, server, authority, **user):
    """Writes a kubeconfig. `user` are keys of its user entry with _ for -: client_certificate, token, tokenFile..."""
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "lab", "user": {key.replace("_", "-"): str(value) for key, value in user.items()}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
    }
    path = pathlib.Path(path)
    path.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")  # JSON is YAML
    return path


def new_key(path):
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)


def _openssl(*arguments, input=None):
    done = subprocess.run(["openssl", *map(str, arguments)], input=input, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.decode().strip()}")
    return done.stdout


def _asn1(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y%m%d%H%M%SZ")


def _base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
