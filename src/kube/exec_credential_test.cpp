#include "kube/exec_credential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rfc3339.h"
#include "support/pki.h"

namespace kube {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kV1 = "client.authentication.k8s.io/v1";
constexpr const char* kHead =
    R"("apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential")";

std::string with_status(const std::string& status) {
  return "{" + std::string(kHead) + ", \"status\": {" + status + "}}";
}

std::string escaped(std::string text) {
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at))
    text.replace(at, 1, "\\n");
  return text;
}

std::string error_of(const std::string& output, const char* version = kV1) {
  const auto parsed = parse_exec_credential(output, version);
  if (parsed) return "";
  EXPECT_THAT(parsed.error().text, Not(HasSubstr("sekret")));
  return parsed.error().text;
}

TEST(ExecCredential, HasAToken) {
  const auto read = parse_exec_credential(
      with_status(R"("token": "t", "expirationTimestamp": "2026-01-02T03:04:05Z")"), kV1);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->token, "t");
  EXPECT_EQ(read->expires, base::parse_rfc3339("2026-01-02T03:04:05Z")->seconds);
  EXPECT_FALSE(parse_exec_credential(with_status(R"("token": "t")"), kV1)->expires);
}

TEST(ExecCredential, HasACertificateAndItsKey) {
  const pki::Pair us = pki::make("us");
  const auto read =
      parse_exec_credential(with_status("\"clientCertificateData\": \"" + escaped(us.cert) +
                                        "\", \"clientKeyData\": \"" + escaped(us.key) + "\""),
                            kV1);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->cert, us.cert);
  EXPECT_EQ(read->key, us.key);
}

TEST(ExecCredential, MayBeYaml) {
  EXPECT_EQ(error_of("apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\n"
                     "status: {token: sekret}\n"),
            "");
}

// What kube-proxy v1.36.4 says to the same output, where it quotes nothing of it.
TEST(ExecCredential, ThatIsWrongIsAnErrorWithoutItsSecrets) {
  EXPECT_EQ(error_of("{" + std::string(kHead) + "}"), "exec plugin didn't return a status field");
  EXPECT_EQ(error_of(with_status("")), "exec plugin didn't return a token or cert/key pair");
  EXPECT_EQ(error_of(with_status(R"("clientCertificateData": "sekret")")),
            "exec plugin returned only certificate or key, not both");
  EXPECT_EQ(error_of(with_status(R"("token": "sekret", "clientKeyData": "sekret")")),
            "exec plugin returned only certificate or key, not both");
  EXPECT_EQ(
      error_of(with_status(R"("clientKeyData": "sekret", "clientCertificateData": "sekret")")),
      "failed parsing client key/certificate: tls: failed to find any PEM data in certificate "
      "input");
  EXPECT_EQ(error_of(with_status(R"("token": "sekret")"), "client.authentication.k8s.io/v1beta1"),
            "exec plugin is configured to use API version client.authentication.k8s.io/v1beta1, "
            "plugin returned version client.authentication.k8s.io/v1");
  EXPECT_EQ(error_of(R"({"status": {"token": "sekret"}})"),
            "exec plugin is configured to use API version client.authentication.k8s.io/v1, plugin "
            "returned version client.authentication.k8s.io/__internal");
  EXPECT_EQ(error_of(R"({"apiVersion": "foo/v1", "kind": "ExecCredential"})"),
            "decoding stdout: no kind \"ExecCredential\" is registered for version \"foo/v1\" in "
            "scheme \"pkg/runtime/scheme.go:111\"");
  EXPECT_EQ(error_of(R"({"apiVersion": "client.authentication.k8s.io/v1", "kind": "X"})"),
            "decoding stdout: no kind \"X\" is registered for version "
            "\"client.authentication.k8s.io/v1\" in scheme \"pkg/runtime/scheme.go:111\"");
  EXPECT_EQ(error_of(with_status(R"("token": ["sekret"])")),
            "decoding stdout: json: cannot unmarshal array into Go struct field "
            "ExecCredentialStatus.status.token of type string");
}

TEST(ExecCredential, ThatCannotBeReadIsNamedByItsPlaceOnly) {
  EXPECT_EQ(error_of("sekret"),
            "decoding stdout: couldn't get version/kind; json parse error: json: cannot unmarshal "
            "string into an object");
  EXPECT_THAT(error_of("{\"token\": *sekret}"), HasSubstr("neither JSON nor YAML from line 1"));
  EXPECT_THAT(error_of(with_status("\"token\": \"sekret").substr(0, 110)),
              HasSubstr("neither JSON nor YAML from line"));
  EXPECT_EQ(error_of(with_status(R"("token": "sekret")") + "\n{\"token\": \"sekret\"}"),
            "decoding stdout: there is more than one document");
  EXPECT_EQ(error_of(with_status(R"("token": "a", "expirationTimestamp": "sekret")")),
            "decoding stdout: status.expirationTimestamp is no time as in RFC 3339");
  EXPECT_EQ(error_of(""),
            "exec plugin is configured to use API version client.authentication.k8s.io/v1, plugin "
            "returned version client.authentication.k8s.io/__internal");
}

TEST(ExecInfo, TellsThePluginWhatItMayKnow) {
  config::Access access{.server = "https://a:1", .token = "sekret"};
  access.exec.emplace().api_version = kV1;
  EXPECT_EQ(exec_info(access, "ca", true),
            R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",)"
            R"("spec":{"interactive":true}})");
  access.exec->provide_cluster_info = true;
  EXPECT_EQ(exec_info(access, "", false),
            R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",)"
            R"("spec":{"cluster":{"server":"https://a:1","config":null},"interactive":false}})");
  access.tls_server_name = "n";
  access.insecure = true;
  access.proxy_url = "http://u:p@b";
  access.disable_compression = true;
  codec::Value::Object config;
  config.push_back({"audience", {}, codec::Value(std::string("me"))});
  access.exec->cluster_config = codec::Value(std::move(config));
  EXPECT_EQ(exec_info(access, "ca", false),
            R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",)"
            R"("spec":{"cluster":{"server":"https://a:1","tls-server-name":"n",)"
            R"("insecure-skip-tls-verify":true,"certificate-authority-data":"Y2E=",)"
            R"("proxy-url":"http://u:p@b","disable-compression":true,)"
            R"("config":{"audience":"me"}},"interactive":false}})");
}

}  // namespace
}  // namespace kube
