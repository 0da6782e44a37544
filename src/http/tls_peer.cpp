#include "http/tls_peer.h"

#include <arpa/inet.h>

#include <ctime>
#include <memory>

#include <openssl/x509v3.h>

#include "net/ip.h"

namespace http {
namespace {

std::string at(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return "?";
  char text[32];
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

std::string address_text(const ASN1_OCTET_STRING* bytes) {
  const unsigned char* data = ASN1_STRING_get0_data(bytes);
  const int size = ASN1_STRING_length(bytes);
  if (size != 4 && size != 16) return {};
  char text[INET6_ADDRSTRLEN];
  if (inet_ntop(size == 4 ? AF_INET : AF_INET6, data, text, sizeof text) == nullptr) return {};
  return text;
}

// The certificate's names, or its addresses: "10.96.0.1, 172.31.0.1". A hostile one may have many.
std::string valid_for(X509* certificate, bool addresses) {
  constexpr size_t kMaxText = 300;
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  std::string out;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    std::string text;
    if (addresses && name->type == GEN_IPADD) text = address_text(name->d.iPAddress);
    if (!addresses && name->type == GEN_DNS) {
      const auto* data = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName));
      text.assign(data, static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    }
    if (text.empty()) continue;
    if (!out.empty()) out += ", ";
    out += text;
    if (out.size() > kMaxText) return out.substr(0, kMaxText) + "...";
  }
  return out;
}

std::string wrong_name(X509* certificate, const std::string& name) {
  const bool is_address = net::IpAddr::parse(name).has_value();
  const std::string names = valid_for(certificate, is_address);
  if (names.empty() && is_address) {
    return "x509: cannot validate certificate for " + name +
           " because it doesn't contain any IP SANs";
  }
  return "x509: certificate is valid for " + (names.empty() ? "no name" : names) + ", not " + name;
}

}  // namespace

base::Result<> expect_peer(SSL* ssl, const std::string& name) {
  X509_VERIFY_PARAM* expected = SSL_get0_param(ssl);
  const bool is_address = net::IpAddr::parse(name).has_value();
  bool set = false;
  if (is_address) {
    set = X509_VERIFY_PARAM_set1_ip_asc(expected, name.c_str()) == 1;
  } else {
    // What the macro SSL_set_tlsext_host_name does, without its cast.
    std::string sent = name;
    set = X509_VERIFY_PARAM_set1_host(expected, name.c_str(), name.size()) == 1 &&
          SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, sent.data()) == 1;
  }
  if (!set) return base::fail(base::ErrorCode::Invalid, "tls: cannot expect the name " + name);
  return {};
}

std::string peer_problem(int result, X509* certificate, const std::string& name) {
  const std::string prefix = "tls: failed to verify certificate: ";
  switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      if (certificate != nullptr) return prefix + wrong_name(certificate, name);
      break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return prefix + "x509: certificate signed by unknown authority";
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID: {
      const bool late = result == X509_V_ERR_CERT_HAS_EXPIRED;
      std::string text =
          prefix + "x509: certificate has expired or is not yet valid: current time " + now();
      if (certificate == nullptr) return text;
      return text + (late ? " is after " + at(X509_get0_notAfter(certificate))
                          : " is before " + at(X509_get0_notBefore(certificate)));
    }
    default:
      break;
  }
  return prefix + "x509: " + X509_verify_cert_error_string(result);
}

}  // namespace http
