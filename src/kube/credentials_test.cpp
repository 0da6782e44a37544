#include "kube/credentials.h"

#include <signal.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "kube/certificate_times.h"
#include "kube/exec_plugin.h"
#include "kube/testing.h"
#include "support/pki.h"

namespace kube {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

constexpr const char* kAnswer =
    R"({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {)";

std::string escaped(std::string text) {
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at))
    text.replace(at, 1, "\\n");
  return text;
}

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() { access_.ca.data = ca_.cert; }

  void open() {
    auto opened = Credentials::open(access_, told_.tell(), time_.clocks(), &observed_);
    ASSERT_TRUE(opened) << opened.error().text;
    credentials_ = *std::move(opened);
  }
  std::string open_error() {
    const auto opened = Credentials::open(access_, told_.tell(), time_.clocks());
    return opened ? "" : opened.error().text;
  }

  template <typename T>
  T run(event::Async<T> coroutine) {
    std::optional<T> result;
    boost::asio::co_spawn(io_, std::move(coroutine),
                          [&](const std::exception_ptr&, T value) { result = std::move(value); });
    io_.restart();
    io_.run();
    return *std::move(result);
  }

  // "" if there is none, "error: ..." if it cannot be had.
  std::string authorization() {
    const auto headers = run(credentials_->headers());
    if (!headers) return "error: " + headers.error().text;
    for (const auto& [name, value] : *headers) {
      if (name == "Authorization") return value;
    }
    return "";
  }

  // The PEM of our certificate in the context; "" if there is none, "error: ..." without a context.
  std::string certificate() {
    const auto context = run(credentials_->tls());
    if (!context) return "error: " + context.error().text;
    X509* certificate = SSL_CTX_get0_certificate((*context)->native_handle());
    if (certificate == nullptr) return "";
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate);
    return pki::detail::text(bio);
  }

  // A plugin that prints the file "answer", and a line into "runs" each time.
  void use_plugin() {
    config::ExecPlugin& plugin = access_.exec.emplace();
    plugin.command = folder_.write_script(
        "plugin", "cd " + folder_.path("") +
                      "; echo \"$KUBERNETES_EXEC_INFO\" >info; echo run >>runs; cat answer");
    plugin.api_version = "client.authentication.k8s.io/v1";
    plugin.interactive = config::Interactive::Never;
  }
  void answer(const std::string& status) const { folder_.write("answer", kAnswer + status + "}}"); }
  long runs() const {
    const std::string text = folder_.read("runs");
    return std::ranges::count(text, '\n');
  }

  TestFolder folder_;
  TestTime time_;
  Told told_;
  Observed observed_;
  boost::asio::io_context io_;
  pki::Pair ca_ = pki::make("ca");
  config::Access access_{.server = "https://x:6443"};
  std::unique_ptr<Credentials> credentials_;  // goes before the io_context
};

TEST_F(CredentialsTest, ATokenIsABearer) {
  access_.token = "t";
  open();
  EXPECT_EQ(authorization(), "Bearer t");
}

TEST_F(CredentialsTest, UserAndPasswordAreBasic) {
  access_.username = "me";
  access_.password = "p";
  open();
  EXPECT_EQ(authorization(), "Basic bWU6cA==");
}

TEST_F(CredentialsTest, OverHttpNobodyLearnsWhoWeAre) {
  access_.server = "http://x";
  access_.token = "t";
  access_.username = "me";
  access_.token_file = folder_.path("none");
  access_.impersonation.user = "you";
  use_plugin();
  open();
  EXPECT_THAT(*run(credentials_->headers()), ElementsAre(Pair("Impersonate-User", "you")));
  EXPECT_EQ(*run(credentials_->tls()), nullptr);
  EXPECT_EQ(credentials_->generation(), 0U);
  EXPECT_EQ(runs(), 0);
}

TEST_F(CredentialsTest, ATokenFileIsFollowed) {
  access_.token_file = folder_.write("token", "first");
  open();
  EXPECT_EQ(authorization(), "Bearer first");
  folder_.write("token", "second");
  EXPECT_EQ(authorization(), "Bearer first");
  time_.pass(50s);
  EXPECT_EQ(authorization(), "Bearer second");
  folder_.write("token", "third");
  const auto sent = run(credentials_->headers());
  credentials_->refused(*sent);
  EXPECT_EQ(authorization(), "Bearer third");
}

TEST_F(CredentialsTest, AValueThatWouldBreakTheRequestIsNotSent) {
  access_.token_file = folder_.write("token", "sekret\r\nX-Evil: sekret");
  open();
  EXPECT_EQ(authorization(), "error: net/http: invalid header field value for \"Authorization\"");
  access_.impersonation.user = "you\nX-Evil: 1";
  EXPECT_EQ(open_error(), "net/http: invalid header field value for \"Impersonate-User\"");
}

TEST_F(CredentialsTest, TheContextIsMadeAnewOnlyWhenAFileHasChanged) {
  const pki::Pair us = pki::make("us");
  access_.cert.file = folder_.write("cert", us.cert);
  access_.key.file = folder_.write("key", us.key);
  open();
  const auto first = run(credentials_->tls());
  EXPECT_EQ(certificate(), us.cert);
  EXPECT_EQ(credentials_->generation(), 0U);
  time_.pass(1h);
  EXPECT_EQ(*run(credentials_->tls()), *first);

  const pki::Pair next = pki::make("next");
  folder_.write("cert", next.cert);
  folder_.write("key", next.key);
  time_.pass(1s);
  EXPECT_EQ(credentials_->generation(), 1U);
  EXPECT_EQ(certificate(), next.cert);
  EXPECT_EQ(credentials_->generation(), 1U);
}

TEST_F(CredentialsTest, APairOfFilesThatDoesNotFitFailsTheConnectionNotTheStart) {
  access_.cert.file = folder_.write("cert", pki::make("us").cert);
  access_.key.file = folder_.write("key", ca_.key);
  open();
  EXPECT_EQ(certificate(),
            "error: " + access_.cert.file + ": tls: private key does not match public key");
}

TEST_F(CredentialsTest, APluginRunsOnceForAsLongAsItsTokenIsGood) {
  use_plugin();
  answer(R"("token": "one", "expirationTimestamp": "2026-01-01T00:10:00Z")");
  open();
  EXPECT_EQ(runs(), 0);
  EXPECT_EQ(authorization(), "Bearer one");
  answer(R"("token": "two")");
  time_.pass(10min - 1s);
  EXPECT_EQ(authorization(), "Bearer one");
  EXPECT_EQ(certificate(), "");
  EXPECT_EQ(runs(), 1);
  time_.pass(1s);
  EXPECT_EQ(authorization(), "Bearer two");
  time_.pass(24h * 365);
  EXPECT_EQ(authorization(), "Bearer two");
  EXPECT_EQ(runs(), 2);
  EXPECT_EQ(credentials_->generation(), 0U);
}

TEST_F(CredentialsTest, APluginRunsAgainWhenItsTokenIsRefused) {
  use_plugin();
  answer(R"("token": "one")");
  open();
  const auto sent = run(credentials_->headers());
  answer(R"("token": "two")");
  credentials_->refused(*sent);
  EXPECT_EQ(authorization(), "Bearer two");
  // A request that went out before with the old one was late to be refused.
  credentials_->refused(*sent);
  EXPECT_EQ(authorization(), "Bearer two");
  EXPECT_EQ(runs(), 2);
}

TEST_F(CredentialsTest, RequestsThatWaitShareOneRun) {
  use_plugin();
  answer(R"("token": "one")");
  open();
  std::vector<std::string> tokens;
  for (int i = 0; i < 5; ++i) {
    boost::asio::co_spawn(io_, credentials_->headers(),
                          [&](const std::exception_ptr&, base::Result<Headers> headers) {
                            tokens.push_back(headers->at(0).second);
                          });
  }
  io_.run();
  EXPECT_EQ(tokens, std::vector<std::string>(5, "Bearer one"));
  EXPECT_EQ(runs(), 1);
}

TEST_F(CredentialsTest, ACertificateOfAPluginIsUsedAndFollowed) {
  const pki::Pair us = pki::make("us");
  const auto pair = [](const pki::Pair& p) {
    return "\"clientCertificateData\": \"" + escaped(p.cert) + "\", \"clientKeyData\": \"" +
           escaped(p.key) + "\"";
  };
  use_plugin();
  answer(pair(us));
  open();
  EXPECT_EQ(certificate(), us.cert);
  EXPECT_EQ(authorization(), "");
  EXPECT_EQ(credentials_->generation(), 0U);

  const pki::Pair next = pki::make("next");
  answer(pair(next));
  credentials_->refused({});
  EXPECT_EQ(authorization(), "");
  EXPECT_EQ(credentials_->generation(), 1U);
  EXPECT_EQ(certificate(), next.cert);
  // The same again is no change.
  credentials_->refused({});
  EXPECT_EQ(certificate(), next.cert);
  EXPECT_EQ(credentials_->generation(), 1U);
  EXPECT_EQ(runs(), 3);
}

TEST_F(CredentialsTest, CertificatesOfAPluginAreObserved) {
  const auto pair = [](const pki::Pair& p) {
    return "\"clientCertificateData\": \"" + escaped(p.cert) + "\", \"clientKeyData\": \"" +
           escaped(p.key) + "\"";
  };
  const pki::Pair first = pki::make("first");
  const auto times = certificate_times(first.cert).value();
  time_.wall = times.not_before + 100s;
  use_plugin();
  answer(pair(first));
  open();
  EXPECT_EQ(certificate(), first.cert);
  const auto until = [](const CertificateTimes& one) {
    return "certificate until " + std::to_string(one.not_after.time_since_epoch().count());
  };
  EXPECT_THAT(observed_.all, ElementsAre("plugin 0 no_error", until(times)));
  observed_.all.clear();
  const pki::Pair second = pki::make("second");
  answer(pair(second));
  credentials_->refused({});
  EXPECT_EQ(certificate(), second.cert);
  EXPECT_THAT(observed_.all, ElementsAre("plugin 0 no_error", "certificate replaced after 100",
                                         until(certificate_times(second.cert).value())));
}

TEST_F(CredentialsTest, CallsOfAPluginAreObservedByTheirEnd) {
  use_plugin();
  const auto observed_with = [&](const std::string& command, const std::vector<std::string>& args) {
    observed_.all.clear();
    access_.exec->command = command;
    access_.exec->args = args;
    open();
    authorization();
    return observed_.all;
  };
  EXPECT_THAT(observed_with("sh", {"-c", "exit 7"}),
              ElementsAre("plugin 7 plugin_execution_error"));
  EXPECT_THAT(observed_with("no-such-plugin", {}), ElementsAre("plugin 1 plugin_not_found_error"));
  EXPECT_THAT(observed_with(folder_.write("plain", "no program"), {}),
              ElementsAre("plugin 1 client_internal_error"));
  EXPECT_THAT(observed_with("sh", {"-c", "echo nonsense"}), ElementsAre("plugin 0 no_error"));
}

TEST_F(CredentialsTest, APluginIsToldAboutTheCluster) {
  use_plugin();
  answer(R"("token": "one")");
  access_.exec->provide_cluster_info = true;
  access_.ca = {.file = folder_.write("ca", ca_.cert)};
  open();
  EXPECT_EQ(authorization(), "Bearer one");
  EXPECT_EQ(folder_.read("info"), exec_info(access_, ca_.cert, false) + "\n");
}

TEST_F(CredentialsTest, APluginGetsItsArgumentsAndVariables) {
  use_plugin();
  access_.exec->command = "sh";
  access_.exec->args = {"-c", "echo '" + std::string(kAnswer) + "\"token\": \"'\"$A $0 $1\"'\"}}'",
                        "x", "y z"};
  access_.exec->env = {{"A", "v"}};
  open();
  EXPECT_EQ(authorization(), "Bearer v x y z");
}

// The texts are those of kube-proxy v1.36.4.
TEST_F(CredentialsTest, APluginThatFailsFailsTheRequestAndIsTriedAgain) {
  use_plugin();
  const std::string program = access_.exec->command;
  const auto fails = [&](const std::string& command, const std::vector<std::string>& args) {
    access_.exec->command = command;
    access_.exec->args = args;
    open();
    EXPECT_EQ(certificate(), authorization());
    return authorization();
  };
  const std::string front = "error: getting credentials: exec: ";
  EXPECT_EQ(fails("sh", {"-c", "exit 7"}), front + "executable sh failed with exit code 7");
  EXPECT_EQ(fails("sh", {"-c", "kill -9 $$"}), front + "executable sh failed with exit code -1");
  EXPECT_EQ(fails("/none/plugin", {}), front + "fork/exec /none/plugin: no such file or directory");
  const std::string plain = folder_.write("plain", "no program");
  EXPECT_EQ(fails(plain, {}), front + "fork/exec " + plain + ": permission denied");
  access_.exec->command = program;
  access_.exec->args = {};
  open();
  folder_.write("answer", "{}");
  EXPECT_THAT(authorization(), HasSubstr("getting credentials: exec plugin is configured"));
  answer(R"("token": "one")");
  EXPECT_EQ(authorization(), "Bearer one");
}

TEST_F(CredentialsTest, APluginThatIsNotInstalledComesWithAHintOncePerHour) {
  use_plugin();
  access_.exec->command = "no-such-plugin";
  access_.exec->install_hint = "install it";
  open();
  EXPECT_THAT(authorization(),
              AllOf(StartsWith("error: getting credentials: exec: executable no-such-plugin not "
                               "found\n\nThe kubeconfig names this program"),
                    testing::EndsWith("\n\ninstall it")));
  EXPECT_EQ(authorization(),
            "error: getting credentials: exec: executable no-such-plugin not found");
  time_.pass(1h);
  EXPECT_THAT(authorization(), HasSubstr("install it"));
}

TEST_F(CredentialsTest, APluginThatNeedsATerminalDoesNotRunWithoutOne) {
  if (::isatty(STDIN_FILENO) == 1) GTEST_SKIP() << "standard input is a terminal";
  use_plugin();
  access_.exec->interactive = config::Interactive::Always;
  open();
  EXPECT_EQ(authorization(),
            "error: getting credentials: exec plugin cannot support interactive mode: standard "
            "input is not a terminal");
  EXPECT_EQ(runs(), 0);
}

TEST_F(CredentialsTest, APluginThatHangsIsKilled) {
  use_plugin();
  access_.exec->command = "sh";
  access_.exec->args = {"-c", "sleep 60; echo never"};
  PemFiles pem(access_, told_.tell(), time_.clocks());
  ExecPlugin plugin(access_, pem, time_.clocks(), observed_, 50ms);
  const auto given = run(plugin.get());
  ASSERT_FALSE(given);
  EXPECT_EQ(given.error().text, "exec: executable sh: no end after 0 s, killed");
}

TEST_F(CredentialsTest, APluginThatPrintsWithoutEndIsAnError) {
  use_plugin();
  access_.exec->command = "sh";
  access_.exec->args = {"-c", "head -c 3000000 /dev/zero"};
  open();
  EXPECT_EQ(authorization(),
            "error: getting credentials: decoding stdout: it is larger than 1 MiB");
}

TEST_F(CredentialsTest, MayGoWhileAPluginRuns) {
  use_plugin();
  access_.exec->command = folder_.write_script(
      "endless", "cd " + folder_.path("") +
                     "; echo $$ >new; mv new started; until [ -e release ]; do sleep 0.05; done");
  open();
  bool answered = false;
  boost::asio::co_spawn(
      io_, credentials_->headers(),
      [&](const std::exception_ptr&, const base::Result<Headers>&) { answered = true; });
  io_.poll();
  const auto deadline = std::chrono::steady_clock::now() + 1min;
  while (folder_.read("started").empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  ASSERT_NE(folder_.read("started"), "");
  const pid_t plugin = std::stoi(folder_.read("started"));

  auto going = std::async(std::launch::async, [&] { credentials_.reset(); });
  // Shorter than the time after which a plugin is killed anyway, a minute.
  EXPECT_EQ(going.wait_for(45s), std::future_status::ready) << "waits for the plugin to end";
  EXPECT_EQ(::kill(plugin, 0), -1) << "the plugin still runs";
  folder_.write("release", "");
  going.wait();
  io_.poll();
  EXPECT_FALSE(answered);
}

// Everything that fails, each with secrets in it that must not be in what is said about it.
class SecretsTest : public CredentialsTest {
 protected:
  // Opens and uses an access; keeps what is said if that fails.
  template <typename Change>
  void try_with(const Change& change) {
    config::Access access{.server = "https://u:sekret@x", .ca = {.data = ca_.cert}};
    change(access);
    auto opened = Credentials::open(access, told_.tell(), time_.clocks());
    if (!opened) {
      said_ += opened.error().text + "\n";
      return;
    }
    credentials_ = *std::move(opened);
    for (const std::string& result : {authorization(), certificate()}) {
      if (result.starts_with("error")) said_ += result + "\n";
    }
  }

  void expect_no_secret(long at_least_lines) {
    said_ += told_.text();
    for (const Notice& notice : told_.notices) {
      for (const auto& [name, value] : notice.fields)
        said_ += value;
    }
    EXPECT_GE(std::ranges::count(said_, '\n'), at_least_lines) << said_;
    EXPECT_THAT(said_, Not(HasSubstr("sekret")));
    EXPECT_THAT(said_, Not(HasSubstr(us_.key.substr(us_.key.find('\n') + 1, 40))));
    EXPECT_THAT(said_, Not(HasSubstr("BEGIN")));
  }

  pki::Pair us_ = pki::make("us", "", "sekret-passphrase");
  std::string said_;
};

TEST_F(SecretsTest, AreInNothingThatIsSaidAboutFilesAndTokens) {
  const std::string key = folder_.write("key", us_.key);
  try_with([&](auto& a) { a.cert.data = ca_.cert, a.key.data = us_.key; });
  try_with([&](auto& a) { a.cert.file = folder_.write("c", ca_.cert), a.key.file = key; });
  try_with([&](auto& a) { a.cert.file = key, a.key.file = key; });
  try_with([&](auto& a) { a.ca = {.data = us_.key}; });
  try_with([&](auto& a) { a.ca = {.file = key}, a.in_cluster = true; });
  try_with([&](auto& a) { a.token = "sekret\n"; });
  try_with([&](auto& a) { a.token = "sekret\x01"; });
  try_with([&](auto& a) { a.impersonation.user = "sekret\n"; });
  // A token file that goes away, with its old token in force.
  try_with([&](auto& a) { a.token_file = folder_.write("token", "sekret"); });
  folder_.write("token", "");
  time_.pass(1min);
  EXPECT_EQ(authorization(), "Bearer sekret");
  expect_no_secret(11);
}

TEST_F(SecretsTest, AreInNothingThatIsSaidAboutAPlugin) {
  use_plugin();
  const std::string pair = "\"clientCertificateData\": \"" + escaped(ca_.cert) +
                           "\", \"clientKeyData\": \"" + escaped(us_.key) + "\"}}";
  for (const std::string& text :
       {std::string("sekret"), std::string("{\"token\": sekret, *sekret}"), kAnswer + pair,
        kAnswer + std::string("\"token\": [\"sekret\"]}}"),
        kAnswer + std::string("\"token\": \"sekret\", \"expirationTimestamp\": \"sekret\"}}")}) {
    folder_.write("answer", text);
    try_with([&](auto& a) { a.exec = access_.exec; });
  }
  // Among its arguments, too.
  try_with([&](auto& a) {
    a.exec = access_.exec;
    a.exec->command = "sh";
    a.exec->args = {"-c", "exit 1 # sekret"};
    a.exec->env = {{"A", "sekret"}};
  });
  expect_no_secret(12);
}

}  // namespace
}  // namespace kube
