// A kubeconfig as it is written (apiVersion v1, kind Config), before anything is chosen or checked.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/kubeconfig.h"

namespace config::kubeconfig {

struct Cluster {
  std::string server;
  std::string tls_server_name;
  bool insecure = false;
  Pem ca;
  std::string proxy_url;
  bool disable_compression = false;
  codec::Value exec_config;  // of extensions
};

// ExecPlugin as it is written.
struct Exec {
  ExecPlugin plugin;
  std::string interactive_mode;  // "" if it must be given and is not
};

struct User {
  Pem cert;
  Pem key;
  std::string token;
  std::string token_file;
  Impersonation impersonation;
  std::string username;
  std::string password;
  std::optional<std::string> auth_provider;  // its name
  std::optional<Exec> exec;
};

struct Context {
  std::string cluster;
  std::string user;
};

struct File {
  std::map<std::string, Cluster, std::less<>> clusters;
  std::map<std::string, User, std::less<>> users;
  std::map<std::string, Context, std::less<>> contexts;
  std::string current_context;
};

// YAML or JSON. Unknown keys are ignored, names are case sensitive, of a repeated key the last value
// counts, of several documents the first. A name that is there twice is an error. Errors never quote
// what the file holds.
base::Result<File> decode(std::string_view text);

// Relative paths are meant from the folder of the kubeconfig; a command without a slash is left to PATH.
void resolve_paths(File& file, const std::string& folder);

}  // namespace config::kubeconfig
