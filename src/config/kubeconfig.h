// How to reach the API server, and who we are there: a kubeconfig file, --master, or the service
// account of a pod.
//
// Reads the kubeconfig once, and checks that the files which it names can be opened; their content is
// read when it is used (kube/credentials.h), as it changes on disk. Error texts are those of
// kube-proxy v1.36.4, but for one thing: none holds a secret.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/value.h"

namespace config {

// PEM in a file, or in the kubeconfig itself; data wins. Both empty: none given.
struct Pem {
  std::string file;
  std::string data;  // decoded

  bool empty() const { return file.empty() && data.empty(); }
};

enum class Interactive { Never, IfAvailable, Always };

struct ExecPlugin {
  std::string command;
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string api_version;   // client.authentication.k8s.io/v1 or /v1beta1
  std::string install_hint;  // fit for a terminal
  bool provide_cluster_info = false;
  Interactive interactive = Interactive::IfAvailable;
  codec::Value cluster_config;  // the cluster's extension client.authentication.k8s.io/exec
};

struct Impersonation {
  std::string user;
  std::string uid;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;
};

// Secrets are in here: never print one as a whole. Files have absolute paths.
//
// Over http nobody gets to see who we are: for such a server only impersonation and proxy are left.
// Of the ways to authenticate, those that are not used are left out (an exec plugin beside a token).
struct Access {
  std::string server;  // with its scheme, http or https; perhaps with a path
  std::string tls_server_name;
  bool insecure = false;  // insecure-skip-tls-verify
  Pem ca;                 // none: the system's roots
  Pem cert;
  Pem key;
  std::string token;
  std::string token_file;
  std::string username;
  std::string password;
  Impersonation impersonation;
  std::string proxy_url;  // none: what the environment says
  bool disable_compression = false;
  std::optional<ExecPlugin> exec;
  bool in_cluster = false;
};

// A variable of the environment, or nothing.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

struct AccessNotice {
  int verbosity = 0;
  std::string message;  // "Neither kubeconfig file nor master URL was specified, ..."
};

// `service_account_folder` is where a pod finds its token and CA.
base::Result<Access> load_access(
    const std::string& kubeconfig, const std::string& master, const Environment& environment,
    std::vector<AccessNotice>& notices,
    const std::string& service_account_folder = "/var/run/secrets/kubernetes.io/serviceaccount");

}  // namespace config
