#include "config/kubeconfig.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

constexpr const char* kServer = "server: https://10.0.0.1:6443";
constexpr const char* kNothing =
    "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER "
    "environment variable";

// A kubeconfig with one cluster c, user u and context x; the parts are YAML in flow style.
struct Parts {
  std::string cluster = kServer;
  std::string user = "token: sekret";
  std::string context = "cluster: c, user: u";
  std::string current = "x";
};

std::string text_of(const Parts& parts) {
  return "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {" + parts.cluster +
         "}}]\nusers: [{name: u, user: {" + parts.user + "}}]\ncontexts: [{name: x, context: {" +
         parts.context + "}}]\ncurrent-context: " + parts.current + "\n";
}

class Kubeconfig : public testing::Test {
 protected:
  Kubeconfig() {
    std::string name = std::filesystem::temp_directory_path() / "kubeconfig-test-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    std::filesystem::create_directory(folder_ / "account");
  }
  ~Kubeconfig() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return path(name);
  }

  base::Result<Access> load(const std::string& text, const std::string& master = "") {
    return load_access(write("config", text), master, environment(), notices_, path("account"));
  }

  Access access(const Parts& parts, const std::string& master = "") {
    auto loaded = load(text_of(parts), master);
    EXPECT_TRUE(loaded) << loaded.error().text;
    return loaded.value_or(Access{});
  }

  // The error, with this test's folder written as /dir. No error has a secret in it.
  std::string error(const std::string& text, const std::string& master = "") {
    const auto loaded = load(text, master);
    if (loaded) return "";
    std::string out = loaded.error().text;
    EXPECT_THAT(out, Not(HasSubstr("sekret"))) << text;
    const std::string folder = folder_;
    for (size_t at = out.find(folder); at != std::string::npos; at = out.find(folder))
      out.replace(at, folder.size(), "/dir");
    return out;
  }
  std::string error(const Parts& parts, const std::string& master = "") {
    return error(text_of(parts), master);
  }
  std::string cluster_error(const std::string& cluster) { return error(Parts{.cluster = cluster}); }
  std::string user_error(const std::string& user) { return error(Parts{.user = user}); }
  // Of a file that does not even load, without the words in front.
  std::string load_error(const std::string& text) {
    const std::string front = "error loading config file \"/dir/config\": ";
    const std::string out = error(text);
    EXPECT_TRUE(out.starts_with(front)) << out;
    return out.substr(std::min(front.size(), out.size()));
  }

  Environment environment() const {
    return [this](std::string_view name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
  }

  std::filesystem::path folder_;
  std::map<std::string, std::string, std::less<>> variables_;
  std::vector<AccessNotice> notices_;
};

TEST_F(Kubeconfig, TheCurrentContextSelectsClusterAndUser) {
  const auto loaded = load(
      "clusters: [{name: a, cluster: {server: https://a}},\n"
      "           {name: b, cluster: {server: https://b/prefix, tls-server-name: nn,\n"
      "                               disable-compression: true, proxy-url: 'http://p:1'}}]\n"
      "users: [{name: ua, user: {token: ta}}, {name: ub, user: {token: tb}}]\n"
      "contexts: [{name: xa, context: {cluster: a, user: ua}},\n"
      "           {name: xb, context: {cluster: b, user: ub, namespace: any_THING}}]\n"
      "current-context: xb\n");
  ASSERT_TRUE(loaded) << loaded.error().text;
  EXPECT_EQ(loaded->server, "https://b/prefix");
  EXPECT_EQ(loaded->tls_server_name, "nn");
  EXPECT_EQ(loaded->token, "tb");
  EXPECT_EQ(loaded->proxy_url, "http://p:1");
  EXPECT_TRUE(loaded->disable_compression);
  EXPECT_FALSE(loaded->in_cluster);
}

TEST_F(Kubeconfig, MayBeJson) {
  const auto loaded = load(
      "{\"clusters\":\t[{\"name\": \"c\", \"cluster\": {\"server\": \"https://a\"}}],\n"
      "\"contexts\": [{\"name\": \"x\", \"context\": {\"cluster\": \"c\"}}],\n"
      "\t\"current-context\": \"x\"}");
  ASSERT_TRUE(loaded) << loaded.error().text;
  EXPECT_EQ(loaded->server, "https://a");
}

TEST_F(Kubeconfig, IsReadLeniently) {
  // Unknown keys, a repeated key, a second document, a user who is not there.
  const std::string text =
      text_of({.cluster = "foo: bar, server: https://old, server: https://new"});
  EXPECT_EQ(error(text + "more: [1]\n---\nkind: Pod\n"), "");
  EXPECT_EQ(load(text)->server, "https://new");
  EXPECT_EQ(access({.context = "cluster: c, user: nobody"}).token, "");
}

TEST_F(Kubeconfig, ReadsEveryKindOfCredential) {
  write("cert", "");
  write("key", "");
  const Access read = access({.user = "client-certificate: cert, client-key: key, username: me, "
                                      "password: sekret, as: you, as-uid: '5', as-groups: [a, b], "
                                      "as-user-extra: {k: [v, w], l: []}"});
  EXPECT_EQ(read.cert.file, path("cert"));
  EXPECT_EQ(read.key.file, path("key"));
  EXPECT_EQ(read.username, "me");
  EXPECT_EQ(read.password, "sekret");
  EXPECT_EQ(read.impersonation.user, "you");
  EXPECT_EQ(read.impersonation.uid, "5");
  EXPECT_THAT(read.impersonation.groups, ElementsAre("a", "b"));
  EXPECT_THAT(read.impersonation.extra,
              ElementsAre(Pair("k", ElementsAre("v", "w")), Pair("l", IsEmpty())));
}

TEST_F(Kubeconfig, RelativePathsAreMeantFromItsFolder) {
  std::filesystem::create_directory(folder_ / "sub");
  write("token", "t");
  write("sub/ca", "");
  const Access read = access({.cluster = std::string(kServer) + ", certificate-authority: sub/ca",
                              .user = "tokenFile: ./sub/../token"});
  EXPECT_EQ(read.ca.file, path("sub/ca"));
  EXPECT_EQ(read.token_file, path("token"));
}

TEST_F(Kubeconfig, ACommandWithASlashIsAPathToo) {
  const std::string rest = ", apiVersion: client.authentication.k8s.io/v1beta1}";
  EXPECT_EQ(access({.user = "exec: {command: ./a" + rest}).exec->command, path("a"));
  EXPECT_EQ(access({.user = "exec: {command: b" + rest}).exec->command, "b");
}

TEST_F(Kubeconfig, DataIsBase64WithLineBreaksOrWithout) {
  EXPECT_EQ(
      access({.cluster = std::string(kServer) + ", certificate-authority-data: aGVsbG8="}).ca.data,
      "hello");
  EXPECT_EQ(access({.cluster = std::string(kServer) +
                               ", certificate-authority-data: \"aG\\nVsbA==\\r\\n\""})
                .ca.data,
            "hell");
  EXPECT_TRUE(
      access({.cluster = std::string(kServer) + ", certificate-authority-data: ''"}).ca.empty());
}

TEST_F(Kubeconfig, AServerWithoutASchemeIsHttp) {
  EXPECT_EQ(access({.cluster = "server: 10.0.0.1:8080"}).server, "http://10.0.0.1:8080");
  EXPECT_EQ(access({.cluster = "server: localhost:8080"}).server, "http://localhost:8080");
  EXPECT_EQ(access({.cluster = "server: 'https://a/b?c#d'"}).server, "https://a/b");
}

TEST_F(Kubeconfig, OverHttpOnlyImpersonationIsLeft) {
  write("ca", "");
  const Access read = access({.cluster = "server: http://a, certificate-authority: ca, "
                                         "insecure-skip-tls-verify: true, tls-server-name: nn",
                              .user = "token: sekret, tokenFile: none, as: you"});
  EXPECT_EQ(read.token, "");
  EXPECT_EQ(read.token_file, "");
  EXPECT_TRUE(read.ca.empty());
  EXPECT_FALSE(read.insecure);
  EXPECT_EQ(read.tls_server_name, "");
  EXPECT_EQ(read.impersonation.user, "you");
  const std::string exec = "exec: {command: x, apiVersion: foo, interactiveMode: Never}";
  EXPECT_FALSE(access({.cluster = "server: http://a", .user = exec}).exec);
  EXPECT_EQ(error(Parts{.cluster = "server: http://a", .user = "auth-provider: {name: oidc}"}), "");
}

TEST_F(Kubeconfig, MasterReplacesTheServerAndForgetsItsName) {
  const Access read = access(
      {.cluster = std::string(kServer) + ", tls-server-name: nn, insecure-skip-tls-verify: true"},
      "https://other:1");
  EXPECT_EQ(read.server, "https://other:1");
  EXPECT_EQ(read.tls_server_name, "");
  EXPECT_TRUE(read.insecure);
  EXPECT_EQ(read.token, "sekret");
}

TEST_F(Kubeconfig, MasterAloneIsAServerWithoutCredentials) {
  const auto read = load_access("", "10.0.0.1:8080", environment(), notices_, path("account"));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->server, "http://10.0.0.1:8080");
  EXPECT_THAT(notices_, IsEmpty());
  EXPECT_EQ(load("", "https://a")->server, "https://a");
}

TEST_F(Kubeconfig, ExecPluginsAreRead) {
  const Access read = access(
      {.cluster = std::string(kServer) +
                  ", extensions: [{name: other, extension: {a: b}}, {name: "
                  "client.authentication.k8s.io/exec, extension: {audience: me}}]",
       .user = "exec: {command: get-token, args: [a, b], env: [{name: NN, value: v}], apiVersion: "
               "client.authentication.k8s.io/v1, installHint: \"install \\e[1mit\\x7f\\x9b\\n\", "
               "provideClusterInfo: true, interactiveMode: Always}"});
  ASSERT_TRUE(read.exec);
  EXPECT_EQ(read.exec->command, "get-token");
  EXPECT_THAT(read.exec->args, ElementsAre("a", "b"));
  EXPECT_THAT(read.exec->env, ElementsAre(Pair("NN", "v")));
  EXPECT_EQ(read.exec->install_hint, "install U+001B[1mitU+007FU+009B\n");
  EXPECT_TRUE(read.exec->provide_cluster_info);
  EXPECT_EQ(read.exec->interactive, Interactive::Always);
  EXPECT_EQ(*read.exec->cluster_config.find("audience")->as_string(), "me");
}

TEST_F(Kubeconfig, AnExecPluginIsNotUsedBesideOtherCredentials) {
  write("f", "t");
  const std::string exec = ", exec: {command: x, apiVersion: client.authentication.k8s.io/v1beta1}";
  EXPECT_TRUE(access({.user = "as: you" + exec}).exec);
  EXPECT_FALSE(access({.user = "token: t" + exec}).exec);
  EXPECT_FALSE(access({.user = "tokenFile: f" + exec}).exec);
  EXPECT_FALSE(access({.user = "username: me" + exec}).exec);
  EXPECT_FALSE(access({.user = "client-certificate: f, client-key: f" + exec}).exec);
}

TEST_F(Kubeconfig, OfAPodIsItsServiceAccount) {
  variables_ = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}};
  write("account/token", "t");
  auto read = load_access("", "", environment(), notices_, path("account"));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->server, "https://10.96.0.1:443");
  EXPECT_EQ(read->token_file, path("account/token"));
  EXPECT_EQ(read->ca.file, path("account/ca.crt"));
  EXPECT_TRUE(read->in_cluster);
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_EQ(notices_[0].message,
            "Neither kubeconfig file nor master URL was specified, falling back to in-cluster "
            "config");

  variables_["KUBERNETES_SERVICE_HOST"] = "fd00::1";
  read = load_access("", "", environment(), notices_, path("account"));
  EXPECT_EQ(read->server, "https://[fd00::1]:443");
}

TEST_F(Kubeconfig, OutsideAPodThereIsNoServiceAccount) {
  const auto read = load_access("", "", environment(), notices_, path("account"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().text,
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and "
            "KUBERNETES_SERVICE_PORT must be defined");
  variables_ = {{"KUBERNETES_SERVICE_HOST", "h"}, {"KUBERNETES_SERVICE_PORT", "1"}};
  EXPECT_EQ(load_access("", "", environment(), notices_, "/none").error().text,
            "open /none/token: no such file or directory");
}

TEST_F(Kubeconfig, WithoutAServerFallsBackToTheServiceAccount) {
  EXPECT_EQ(error(""), kNothing);
  variables_ = {{"KUBERNETES_SERVICE_HOST", "h"}, {"KUBERNETES_SERVICE_PORT", "1"}};
  EXPECT_EQ(error(""), kNothing);
  write("account/token", "t");
  EXPECT_EQ(load("")->server, "https://h:1");
  EXPECT_EQ(notices_.back().message, "Using in-cluster configuration");
  EXPECT_EQ(notices_.back().verbosity, 4);
  // Not when something else is wrong, too.
  EXPECT_THAT(error(Parts{.current = "nope"}), HasSubstr("context was not found"));
}

// From here on: what kube-proxy v1.36.4 printed for the same input.

TEST_F(Kubeconfig, ThatCannotBeReadIsAnError) {
  const auto at = [&](const std::string& name) {
    return load_access(name, "", environment(), notices_).error().text;
  };
  EXPECT_EQ(at("/none"), "stat /none: no such file or directory");
  EXPECT_EQ(at("/tmp"), "error loading config file \"/tmp\": read /tmp: is a directory");
}

TEST_F(Kubeconfig, WithoutContentIsNoConfiguration) {
  for (const char* text : {"", "\n", "# x\n", "clusters: []\n", "{\"kind\":\"Config\"}"}) {
    EXPECT_EQ(error(text), kNothing) << text;
  }
  EXPECT_EQ(error(Parts{.current = "''"}), kNothing);
  EXPECT_EQ(error(Parts{.context = "user: u"}), kNothing);
  EXPECT_EQ(error(Parts{.context = "cluster: d, user: u"}), kNothing);
}

TEST_F(Kubeconfig, OfAnotherKindIsAnError) {
  EXPECT_EQ(load_error("apiVersion: v1\nkind: Pod\n"),
            "no kind \"Pod\" is registered for version \"v1\" in scheme "
            "\"pkg/runtime/scheme.go:111\"");
  EXPECT_EQ(load_error("apiVersion: a/v1\nkind: Config\n"),
            "no kind \"Config\" is registered for version \"a/v1\" in scheme "
            "\"pkg/runtime/scheme.go:111\"");
}

TEST_F(Kubeconfig, ThatIsNoYamlIsAnErrorThatQuotesNothing) {
  EXPECT_THAT(load_error("a: [\n"), testing::StartsWith("yaml: line "));
  EXPECT_THAT(load_error("token: *sekret\n"),
              testing::AllOf(HasSubstr("unknown anchor \"...\" referenced")));
  EXPECT_THAT(load_error("password: !!int 'sekret\"more\\sekret'\n"), HasSubstr("cannot decode"));
  EXPECT_THAT(load_error("{\"token\": sekret, \"b\" 5}"), testing::StartsWith("yaml: line "));
  EXPECT_THAT(load_error("sekret\n"),
              "couldn't get version/kind; json parse error: json: cannot unmarshal string into an "
              "object");
}

TEST_F(Kubeconfig, ValuesOfAnotherTypeAreErrors) {
  const auto wrong = [&](const Parts& parts) {
    const std::string text = load_error(text_of(parts));
    return text.substr(std::min(text.size(), std::string("json: cannot unmarshal ").size()));
  };
  EXPECT_EQ(wrong({.cluster = "server: 5"}),
            "number into Go struct field Cluster.clusters.cluster.server of type string");
  EXPECT_EQ(wrong({.cluster = "insecure-skip-tls-verify: 'yes'"}),
            "string into Go struct field Cluster.clusters.cluster.insecure-skip-tls-verify of type "
            "bool");
  EXPECT_EQ(wrong({.user = "token: [sekret]"}),
            "array into Go struct field AuthInfo.users.user.token of type string");
  EXPECT_EQ(wrong({.user = "as-groups: sekret"}),
            "string into Go struct field AuthInfo.users.user.as-groups of type []string");
  EXPECT_EQ(wrong({.user = "as-user-extra: {a: sekret}"}),
            "string into Go struct field AuthInfo.users.user.as-user-extra of type []string");
  EXPECT_EQ(wrong({.user = "exec: 7"}),
            "number into Go struct field AuthInfo.users.user.exec of type v1.ExecConfig");
  EXPECT_EQ(wrong({.user = "client-key-data: 5"}),
            "number into Go struct field AuthInfo.users.user.client-key-data of type []uint8");
  EXPECT_EQ(wrong({.user = "exec: {env: [{value: true}]}"}),
            "bool into Go struct field ExecEnvVar.users.user.exec.env.value of type string");
  EXPECT_EQ(load_error("clusters: {a: b}\n"),
            "json: cannot unmarshal object into Go struct field Config.clusters of type "
            "[]v1.NamedCluster");
  EXPECT_EQ(load_error("clusters: [5]\n"),
            "json: cannot unmarshal number into Go struct field Config.clusters of type "
            "v1.NamedCluster");
}

TEST_F(Kubeconfig, BadBase64IsNamedByItsPlace) {
  const auto at = [&](const std::string& data) {
    return load_error(text_of({.user = "client-key-data: '" + data + "'"}));
  };
  EXPECT_EQ(at("@@"), "illegal base64 data at input byte 0");
  EXPECT_EQ(at("YWJ"), "illegal base64 data at input byte 0");
  EXPECT_EQ(at("sekret!sekret!"), "illegal base64 data at input byte 6");
  EXPECT_EQ(at("YWJj="), "illegal base64 data at input byte 4");
  EXPECT_EQ(at("YW="), "illegal base64 data at input byte 3");
  EXPECT_EQ(at("YW==YWJj"), "illegal base64 data at input byte 4");
}

// The real one prints the whole list behind it, tokens and passwords included.
TEST_F(Kubeconfig, ANameThatIsThereTwiceIsAnErrorThatPrintsNoSecret) {
  EXPECT_EQ(
      load_error("users: [{name: a, user: {token: sekret}}, {name: a, user: {password: "
                 "sekret2}}]\n"),
      "error converting *[]NamedAuthInfo into *map[string]*api.AuthInfo: duplicate name \"a\" "
      "in list");
  EXPECT_EQ(
      load_error("clusters: [{name: a}, {name: a}]\n"),
      "error converting *[]NamedCluster into *map[string]*api.Cluster: duplicate name \"a\" in "
      "list");
  EXPECT_EQ(
      load_error("contexts: [{name: a}, {name: a}]\n"),
      "error converting *[]NamedContext into *map[string]*api.Context: duplicate name \"a\" in "
      "list");
  EXPECT_EQ(load_error(text_of({.cluster = "extensions: [{name: a}, {name: a}]"})),
            "error converting *[]NamedExtension into *map[string]runtime.Object: duplicate name "
            "\"a\" in list");
}

TEST_F(Kubeconfig, NamesWhatIsMissing) {
  EXPECT_EQ(
      error(Parts{.current = "nope"}),
      "invalid configuration: [context was not found for specified context: nope, cluster has "
      "no server defined]");
  EXPECT_EQ(error(Parts{.current = "nope"}, "https://m"),
            "invalid configuration: context was not found for specified context: nope");
  EXPECT_EQ(cluster_error("insecure-skip-tls-verify: true"),
            "invalid configuration: no server found for cluster \"c\"");
  EXPECT_EQ(cluster_error(""), "invalid configuration: no server found for cluster \"c\"");
  EXPECT_EQ(cluster_error("Server: https://a"),
            "invalid configuration: no server found for cluster \"c\"");
  EXPECT_EQ(error("clusters: [{cluster: {insecure-skip-tls-verify: true}}]\n"
                  "contexts: [{name: x, context: {}}]\ncurrent-context: x\n"),
            "invalid configuration: default cluster has no server defined");
  EXPECT_EQ(error(Parts{.cluster = "", .user = "token: a, username: b"}),
            "invalid configuration: [more than one authentication method found for u; found [token "
            "basicAuth], only one is allowed, no server found for cluster \"c\"]");
}

TEST_F(Kubeconfig, ChecksTheCa) {
  write("ca", "");
  const std::string server = std::string(kServer) + ", ";
  EXPECT_EQ(
      cluster_error(server + "certificate-authority: /none, certificate-authority-data: YWJj"),
      "invalid configuration: [certificate-authority-data and certificate-authority are both "
      "specified for c. certificate-authority-data will override., unable to read "
      "certificate-authority /none for c due to open /none: no such file or directory]");
  EXPECT_EQ(cluster_error(server + "certificate-authority: no.crt"),
            "invalid configuration: unable to read certificate-authority /dir/no.crt for c due to "
            "open /dir/no.crt: no such file or directory");
  EXPECT_EQ(cluster_error(server + "certificate-authority: ca, insecure-skip-tls-verify: true"),
            "specifying a root certificates file with the insecure flag is not allowed");
}

TEST_F(Kubeconfig, ChecksTheClientCertificate) {
  write("f", "");
  EXPECT_EQ(user_error("client-certificate: f, client-certificate-data: YWJj, client-key: f"),
            "invalid configuration: client-cert-data and client-cert are both specified for u. "
            "client-cert-data will override.");
  EXPECT_EQ(user_error("client-certificate: f, client-key-data: YWJj, client-key: f"),
            "invalid configuration: client-key-data and client-key are both specified for u; "
            "client-key-data will override");
  EXPECT_EQ(user_error("client-certificate: f"),
            "invalid configuration: client-key-data or client-key must be specified for u to use "
            "the clientCert authentication method.");
  EXPECT_EQ(
      user_error("client-certificate: no.pem, client-key: nokey.pem"),
      "invalid configuration: [unable to read client-cert /dir/no.pem for u due to open "
      "/dir/no.pem: no such file or directory, unable to read client-key /dir/nokey.pem for u "
      "due to open /dir/nokey.pem: no such file or directory]");
  EXPECT_EQ(user_error("client-key: none"), "");
}

TEST_F(Kubeconfig, ChecksTokensPasswordsAndImpersonation) {
  write("f", "t");
  EXPECT_EQ(user_error("token: sekret, username: b"),
            "invalid configuration: more than one authentication method found for u; found [token "
            "basicAuth], only one is allowed");
  EXPECT_EQ(user_error("tokenFile: f, username: b, password: sekret"),
            "username/password or bearer token may be set, but not both");
  EXPECT_EQ(user_error("tokenFile: none"), "open /dir/none: no such file or directory");
  EXPECT_EQ(user_error("token: sekret, tokenFile: none"), "");
  for (const char* user : {"as-uid: b", "as-groups: [b]", "as-user-extra: {b: [c]}"}) {
    EXPECT_EQ(user_error(user),
              "invalid configuration: requesting uid, groups or user-extra for u without "
              "impersonating a user");
  }
  EXPECT_EQ(user_error("auth-provider: {name: oidc, config: {secret: sekret}}"),
            "no Auth Provider found for name \"oidc\"");
}

TEST_F(Kubeconfig, ChecksExecPlugins) {
  const std::string v1 = "command: x, apiVersion: client.authentication.k8s.io/v1";
  EXPECT_EQ(user_error("auth-provider: {name: oidc}, exec: {interactiveMode: Never, " + v1 + "}"),
            "invalid configuration: authProvider cannot be provided in combination with an exec "
            "plugin for u");
  EXPECT_EQ(user_error("exec: {}"),
            "invalid configuration: [command must be specified for u to use exec authentication "
            "plugin, apiVersion must be specified for u to use exec authentication plugin, "
            "interactiveMode must be specified for u to use exec authentication plugin]");
  EXPECT_EQ(user_error("exec: {interactiveMode: Never, env: [{value: a}, {value: b}], " + v1 + "}"),
            "invalid configuration: env variable name must be specified for u to use exec "
            "authentication plugin");
  EXPECT_EQ(user_error("exec: {" + v1 + "}"),
            "invalid configuration: interactiveMode must be specified for u to use exec "
            "authentication plugin");
  EXPECT_EQ(user_error("exec: {interactiveMode: Sometimes, " + v1 + "}"),
            "invalid configuration: invalid interactiveMode for u: \"Sometimes\"");
  EXPECT_EQ(user_error("exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}"),
            "exec plugin: invalid apiVersion \"client.authentication.k8s.io/v1alpha1\"");
  EXPECT_EQ(user_error("token: t, exec: {command: x, apiVersion: foo, interactiveMode: Never}"),
            "exec plugin: invalid apiVersion \"foo\"");
}

// Where the real one prints a password, ours prints xxxxx.
TEST_F(Kubeconfig, ChecksTheProxy) {
  const auto proxy = [&](const std::string& url) {
    const std::string error = cluster_error(std::string(kServer) + ", proxy-url: '" + url + "'");
    return error.substr(std::min(error.size(), std::string("invalid configuration: ").size()));
  };
  EXPECT_EQ(proxy("ftp://user:sekret@x"),
            "invalid 'proxy-url' \"ftp://xxxxx@x\" for cluster \"c\": unsupported scheme \"ftp\", "
            "must be http, https, or socks5");
  EXPECT_EQ(proxy("x:8080"),
            "invalid 'proxy-url' \"x:8080\" for cluster \"c\": unsupported scheme \"x\", must be "
            "http, https, or socks5");
  EXPECT_EQ(proxy("x"),
            "invalid 'proxy-url' \"x\" for cluster \"c\": unsupported scheme \"\", must be http, "
            "https, or socks5");
  EXPECT_EQ(proxy("http://user:sekret@x:y"),
            "invalid 'proxy-url' \"http://xxxxx@x:y\" for cluster \"c\": could not parse: "
            "http://xxxxx@x:y");
  EXPECT_EQ(proxy(":"), "invalid 'proxy-url' \":\" for cluster \"c\": could not parse: :");
  EXPECT_THAT(proxy("http://user:sekret/sekret@x"), HasSubstr("could not parse"));
  EXPECT_EQ(proxy("socks5://user:sekret@x"), "");
}

TEST_F(Kubeconfig, ChecksTheServer) {
  EXPECT_EQ(cluster_error("server: 'https://[::1'"),
            "host must be a URL or a host:port pair: \"https://[::1\"");
  EXPECT_EQ(cluster_error("server: '127.0.0.1:1/foo'"),
            "host must be a URL or a host:port pair: \"127.0.0.1:1/foo\"");
  EXPECT_EQ(cluster_error("server: 'https://127.0.0.1:x'"),
            "host must be a URL or a host:port pair: \"https://127.0.0.1:x\"");
  EXPECT_EQ(cluster_error("server: 'https://'"),
            "host must be a URL or a host:port pair: \"https://\"");
  // The password is ours to leave out, and a scheme that cannot work fails at the start.
  EXPECT_EQ(cluster_error("server: 'https://u:sekret@127.0.0.1:x'"),
            "host must be a URL or a host:port pair: \"https://xxxxx@127.0.0.1:x\"");
  EXPECT_EQ(cluster_error("server: 'ftp://a'"), "unsupported protocol scheme \"ftp\"");
  EXPECT_THAT(cluster_error("server: ' https://a'"), HasSubstr("host must be a URL"));
}

}  // namespace
}  // namespace config
