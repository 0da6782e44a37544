#include "kube/exec_credential.h"

#include <utility>

#include "base/rfc3339.h"
#include "base/text.h"
#include "codec/document.h"
#include "codec/json.h"
#include "http/basic_auth.h"
#include "http/tls.h"

namespace kube {
namespace {

using base::ErrorCode;
using base::Result;
using codec::Value;

constexpr std::string_view kGroup = "client.authentication.k8s.io";

std::unexpected<base::Error> invalid(std::string text) {
  return base::fail(ErrorCode::Invalid, std::move(text));
}

std::unexpected<base::Error> undecodable(std::string text) {
  return invalid("decoding stdout: " + std::move(text));
}

Value text_value(const std::string& text) { return Value(text); }

Value cluster_info(const config::Access& access, const std::string& ca_pem) {
  Value::Object cluster;
  const auto add = [&](const char* name, Value value) {
    cluster.push_back({name, {}, std::move(value)});
  };
  add("server", text_value(access.server));
  if (!access.tls_server_name.empty()) add("tls-server-name", text_value(access.tls_server_name));
  if (access.insecure) add("insecure-skip-tls-verify", Value(true));
  if (!ca_pem.empty()) add("certificate-authority-data", text_value(http::encode_base64(ca_pem)));
  if (!access.proxy_url.empty()) add("proxy-url", text_value(access.proxy_url));
  if (access.disable_compression) add("disable-compression", Value(true));
  add("config", access.exec->cluster_config);
  return Value(std::move(cluster));
}

// The only document. What is wrong with it is told by its place: the rest might be a secret.
Result<Value> parse(std::string_view output) {
  Value document;
  int documents = 0;
  const auto parsed = codec::parse_stream(output, [&](Value value) -> Result<> {
    document = std::move(value);
    ++documents;
    return {};
  });
  if (!parsed) {
    const std::string& text = parsed.error().text;
    return undecodable("it is neither JSON nor YAML from " + text.substr(0, text.find(": ")) +
                       " on");
  }
  if (documents > 1) return undecodable("there is more than one document");
  if (!document.is_null() && document.as_object() == nullptr) {
    return undecodable("couldn't get version/kind; json parse error: json: cannot unmarshal " +
                       std::string(document.kind_name()) + " into an object");
  }
  return document;
}

// A text of the document or of its status, "" if it is not there.
Result<std::string> text_of(const Value& object, std::string_view key, std::string_view field) {
  const Value* value = object.find(key);
  if (value == nullptr || value->is_null()) return std::string();
  if (value->as_string() != nullptr) return *value->as_string();
  return undecodable("json: cannot unmarshal " + std::string(value->kind_name()) +
                     " into Go struct field " + std::string(field) + std::string(key) +
                     " of type string");
}

Result<> check_version(const Value& document, const std::string& api_version) {
  const std::string kind = TRY(text_of(document, "kind", "."));
  std::string version = TRY(text_of(document, "apiVersion", "."));
  const std::string group(kGroup);
  if (version.empty()) version = group + "/__internal";
  const bool known =
      version == group + "/v1" || version == group + "/v1beta1" || version == group + "/__internal";
  if (!known || (!kind.empty() && kind != "ExecCredential")) {
    return undecodable("no kind " + base::quote(kind) + " is registered for version " +
                       base::quote(version) + " in scheme \"pkg/runtime/scheme.go:111\"");
  }
  if (version == api_version) return {};
  return invalid("exec plugin is configured to use API version " + api_version +
                 ", plugin returned version " + version);
}

Result<ExecCredential> read_status(const Value& status) {
  const std::string_view field = "ExecCredentialStatus.status.";
  ExecCredential credential{.token = TRY(text_of(status, "token", field)),
                            .cert = TRY(text_of(status, "clientCertificateData", field)),
                            .key = TRY(text_of(status, "clientKeyData", field))};
  const std::string expires = TRY(text_of(status, "expirationTimestamp", field));
  if (!expires.empty()) {
    const auto parsed = base::parse_rfc3339(expires);
    if (!parsed) return undecodable("status.expirationTimestamp is no time as in RFC 3339");
    credential.expires = parsed->seconds;
  }
  return credential;
}

Result<> check_credential(const ExecCredential& credential) {
  if (credential.token.empty() && credential.cert.empty() && credential.key.empty()) {
    return invalid("exec plugin didn't return a token or cert/key pair");
  }
  if (credential.cert.empty() != credential.key.empty()) {
    return invalid("exec plugin returned only certificate or key, not both");
  }
  if (credential.cert.empty()) return {};
  TRY_CONTEXT(http::make_tls_context(
                  {.ca_pem = "", .cert_pem = credential.cert, .key_pem = credential.key}),
              "failed parsing client key/certificate");
  return {};
}

}  // namespace

std::string exec_info(const config::Access& access, const std::string& ca_pem, bool interactive) {
  Value::Object spec;
  if (access.exec->provide_cluster_info) {
    spec.push_back({"cluster", {}, cluster_info(access, ca_pem)});
  }
  spec.push_back({"interactive", {}, Value(interactive)});
  Value::Object root;
  root.push_back({"kind", {}, text_value("ExecCredential")});
  root.push_back({"apiVersion", {}, text_value(access.exec->api_version)});
  root.push_back({"spec", {}, Value(std::move(spec))});
  std::string out;
  codec::json::append(out, Value(std::move(root)));
  return out;
}

Result<ExecCredential> parse_exec_credential(std::string_view output,
                                             const std::string& api_version) {
  const Value document = TRY(parse(output));
  TRY(check_version(document, api_version));
  const Value* status = document.find("status");
  if (status == nullptr || status->is_null()) {
    return invalid("exec plugin didn't return a status field");
  }
  if (status->as_object() == nullptr) {
    return undecodable("json: cannot unmarshal " + std::string(status->kind_name()) +
                       " into Go struct field ExecCredential.status of type "
                       "v1.ExecCredentialStatus");
  }
  ExecCredential credential = TRY(read_status(*status));
  TRY(check_credential(credential));
  return credential;
}

}  // namespace kube
