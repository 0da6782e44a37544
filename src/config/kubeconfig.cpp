#include "config/kubeconfig.h"

#include <errno.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/text.h"
#include "config/aggregate.h"
#include "config/kubeconfig_file.h"
#include "config/kubeconfig_io.h"
#include "config/kubeconfig_server.h"

namespace config {
namespace {

using base::ErrorCode;
using base::Result;
using kubeconfig::Cluster;
using kubeconfig::Context;
using kubeconfig::File;
using kubeconfig::User;
using Errors = std::vector<std::string>;

constexpr const char* kNoCluster = "cluster has no server defined";
constexpr const char* kNoConfiguration =
    "no configuration has been provided, try setting KUBERNETES_MASTER environment variable";

std::unexpected<base::Error> invalid(std::string text) {
  return base::fail(ErrorCode::Invalid, std::move(text));
}

// What the current context selects; what it does not name, or what is not there, is empty.
struct Selection {
  std::string context_name;
  bool context_found = false;
  Context context;
  bool has_cluster = false;  // in the file, or by --master
  Cluster cluster;
  User user;
};

template <typename T>
const T* find(const std::map<std::string, T, std::less<>>& things, const std::string& name) {
  const auto found = things.find(name);
  return found == things.end() ? nullptr : &found->second;
}

Selection select(const File& file, const std::string& master) {
  Selection selection{.context_name = file.current_context};
  if (const Context* context = find(file.contexts, file.current_context)) {
    selection.context_found = true;
    selection.context = *context;
  }
  if (const User* user = find(file.users, selection.context.user)) selection.user = *user;
  if (const Cluster* cluster = find(file.clusters, selection.context.cluster)) {
    selection.has_cluster = true;
    selection.cluster = *cluster;
  }
  if (!master.empty()) {
    selection.has_cluster = true;
    selection.cluster.server = master;
    selection.cluster.tls_server_name.clear();  // it was that of the other server
  }
  return selection;
}

void check_file(const std::string& what, const std::string& path, const std::string& name,
                Errors& errors) {
  if (path.empty()) return;
  if (const auto readable = check_readable(path); !readable) {
    errors.push_back("unable to read " + what + " " + path + " for " + name + " due to " +
                     readable.error().text);
  }
}

void check_certificate(const User& user, const std::string& name, Errors& errors) {
  if (user.cert.empty()) return;
  if (!user.cert.file.empty() && !user.cert.data.empty()) {
    errors.push_back("client-cert-data and client-cert are both specified for " + name +
                     ". client-cert-data will override.");
  }
  if (!user.key.file.empty() && !user.key.data.empty()) {
    errors.push_back("client-key-data and client-key are both specified for " + name +
                     "; client-key-data will override");
  }
  if (user.key.empty()) {
    errors.push_back("client-key-data or client-key must be specified for " + name +
                     " to use the clientCert authentication method.");
  }
  check_file("client-cert", user.cert.file, name, errors);
  check_file("client-key", user.key.file, name, errors);
}

std::optional<Interactive> parse_interactive(std::string_view mode) {
  if (mode == "Never") return Interactive::Never;
  if (mode == "IfAvailable") return Interactive::IfAvailable;
  if (mode == "Always") return Interactive::Always;
  return std::nullopt;
}

void check_exec(const User& user, const std::string& name, Errors& errors) {
  if (!user.exec) return;
  const std::string suffix =
      " must be specified for " + name + " to use exec authentication plugin";
  if (user.auth_provider) {
    errors.push_back("authProvider cannot be provided in combination with an exec plugin for " +
                     name);
  }
  const ExecPlugin& plugin = user.exec->plugin;
  if (plugin.command.empty()) errors.push_back("command" + suffix);
  if (plugin.api_version.empty()) errors.push_back("apiVersion" + suffix);
  for (const auto& [variable, value] : plugin.env) {
    if (variable.empty()) errors.push_back("env variable name" + suffix);
  }
  const std::string& mode = user.exec->interactive_mode;
  if (mode.empty()) {
    errors.push_back("interactiveMode" + suffix);
  } else if (!parse_interactive(mode)) {
    errors.push_back("invalid interactiveMode for " + name + ": " + base::quote(mode));
  }
}

void check_user(const User& user, const std::string& name, Errors& errors) {
  check_certificate(user, name, errors);
  check_exec(user, name, errors);
  if (!user.token.empty() && (!user.username.empty() || !user.password.empty())) {
    errors.push_back("more than one authentication method found for " + name +
                     "; found [token basicAuth], only one is allowed");
  }
  const Impersonation& as = user.impersonation;
  if (as.user.empty() && (!as.uid.empty() || !as.groups.empty() || !as.extra.empty())) {
    errors.push_back("requesting uid, groups or user-extra for " + name +
                     " without impersonating a user");
  }
}

void check_cluster(const Selection& selection, Errors& errors) {
  const Cluster& cluster = selection.cluster;
  const std::string& name = selection.context.cluster;
  if (!selection.has_cluster) {
    errors.emplace_back(kNoCluster);
    return;
  }
  if (cluster.server.empty()) {
    errors.push_back(name.empty() ? "default cluster has no server defined"
                                  : "no server found for cluster " + base::quote(name));
  }
  if (!cluster.proxy_url.empty()) {
    if (const auto checked = kubeconfig::check_proxy_url(cluster.proxy_url); !checked) {
      errors.push_back("invalid 'proxy-url' " +
                       base::quote(kubeconfig::redacted(cluster.proxy_url)) + " for cluster " +
                       base::quote(name) + ": " + checked.error().text);
    }
  }
  if (!cluster.ca.file.empty() && !cluster.ca.data.empty()) {
    errors.push_back(
        "certificate-authority-data and certificate-authority are both specified for " + name +
        ". certificate-authority-data will override.");
  }
  check_file("certificate-authority", cluster.ca.file, name, errors);
}

Errors check(const Selection& selection) {
  Errors errors;
  if (!selection.context_name.empty() && !selection.context_found) {
    errors.push_back("context was not found for specified context: " + selection.context_name);
  }
  check_user(selection.user, selection.context.user, errors);
  check_cluster(selection, errors);
  return errors;
}

// Who we are, for a server that we can trust with it. Checked in the order of the real one.
Result<> identify(const Cluster& cluster, const User& user, Access& access) {
  access.token = user.token;
  access.token_file = user.token_file;
  if (user.token.empty() && !user.token_file.empty()) TRY(check_readable(user.token_file));
  if (!user.cert.empty()) {
    access.cert = user.cert;
    access.key = user.key;
  }
  access.username = user.username;
  access.password = user.password;
  access.ca = cluster.ca;
  access.insecure = cluster.insecure;
  access.tls_server_name = cluster.tls_server_name;

  const bool has_token = !access.token.empty() || !access.token_file.empty();
  const bool has_basic = !access.username.empty();
  if (user.exec) {
    ExecPlugin plugin = user.exec->plugin;
    if (plugin.api_version != "client.authentication.k8s.io/v1" &&
        plugin.api_version != "client.authentication.k8s.io/v1beta1") {
      return invalid("exec plugin: invalid apiVersion " + base::quote(plugin.api_version));
    }
    plugin.interactive = *parse_interactive(user.exec->interactive_mode);
    plugin.cluster_config = cluster.exec_config;
    if (!has_token && !has_basic && access.cert.empty()) access.exec = std::move(plugin);
  }
  if (user.auth_provider) {
    return invalid("no Auth Provider found for name " + base::quote(*user.auth_provider));
  }
  if (access.insecure && !access.ca.empty()) {
    return invalid("specifying a root certificates file with the insecure flag is not allowed");
  }
  if (has_token && has_basic) {
    return invalid("username/password or bearer token may be set, but not both");
  }
  return {};
}

Result<Access> to_access(const Selection& selection) {
  Access access{.server = TRY(kubeconfig::complete_server(selection.cluster.server)),
                .impersonation = selection.user.impersonation,
                .proxy_url = selection.cluster.proxy_url,
                .disable_compression = selection.cluster.disable_compression};
  if (base::lower(access.server).starts_with("https://")) {
    TRY(identify(selection.cluster, selection.user, access));
  }
  return access;
}

Result<File> load_file(const std::string& path) {
  if (path.empty()) return File{};
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 && errno == ENOENT) {
    return base::fail_errno("stat " + path);
  }
  const std::string context = "error loading config file \"" + path + "\"";
  const std::string text = TRY_CONTEXT(read_small_file(path), context);
  File file = TRY_CONTEXT(kubeconfig::decode(text), context);
  kubeconfig::resolve_paths(file, std::filesystem::absolute(path).parent_path().string());
  return file;
}

// The address and token that every pod has.
class Pod {
 public:
  Pod(const Environment& environment, std::string folder)
      : host_(environment("KUBERNETES_SERVICE_HOST").value_or("")),
        port_(environment("KUBERNETES_SERVICE_PORT").value_or("")),
        folder_(std::move(folder)) {}

  bool looks_like_one() const {
    struct stat status{};
    return has_address() && ::stat(token_file().c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
  }

  Result<Access> access() const {
    if (!has_address()) {
      return invalid(
          "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and "
          "KUBERNETES_SERVICE_PORT must be defined");
    }
    TRY(check_readable(token_file()));
    const bool v6 = host_.find(':') != std::string::npos;
    return Access{.server = "https://" + (v6 ? "[" + host_ + "]" : host_) + ":" + port_,
                  .ca = {.file = folder_ + "/ca.crt"},
                  .token_file = token_file(),
                  .in_cluster = true};
  }

 private:
  bool has_address() const { return !host_.empty() && !port_.empty(); }
  std::string token_file() const { return folder_ + "/token"; }

  std::string host_;
  std::string port_;
  std::string folder_;
};

}  // namespace

Result<Access> load_access(const std::string& kubeconfig, const std::string& master,
                           const Environment& environment, std::vector<AccessNotice>& notices,
                           const std::string& service_account_folder) {
  const Pod pod(environment, service_account_folder);
  if (kubeconfig.empty() && master.empty()) {
    notices.push_back({0,
                       "Neither kubeconfig file nor master URL was specified, falling back to "
                       "in-cluster config"});
    return pod.access();
  }
  const File file = TRY(load_file(kubeconfig));
  const Selection selection = select(file, master);
  const Errors errors = check(selection);
  if (errors.empty()) return to_access(selection);
  // Nothing is wrong but that there is no server at all: a file of another purpose, perhaps.
  const bool empty = errors.size() == 1 && errors.front() == kNoCluster;
  if (empty && pod.looks_like_one()) {
    notices.push_back({4, "Using in-cluster configuration"});
    return pod.access();
  }
  return invalid("invalid configuration: " + (empty ? kNoConfiguration : aggregate(errors)));
}

}  // namespace config
