#include "http/tls.h"

#include <array>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include <boost/asio/ssl/context.hpp>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace http {
namespace {

using base::ErrorCode;
using base::Result;

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* thing) const {
    Free(thing);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

// Where distributions keep the roots that they trust, as Go looks for them.
constexpr std::array<const char*, 6> kSystemRoots{
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora
    "/etc/ssl/ca-bundle.pem",                             // SUSE
    "/etc/pki/tls/cacert.pem",                            // OpenELEC
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL
    "/etc/ssl/cert.pem",                                  // Alpine
};

std::unexpected<base::Error> invalid(std::string text) {
  ERR_clear_error();
  return base::fail(ErrorCode::Invalid, std::move(text));
}

// The library's word for what went wrong: one of its constant texts, nothing of the input.
std::string reason() {
  const char* text = ERR_reason_error_string(ERR_peek_last_error());
  return text == nullptr ? "unknown error" : text;
}

Bio open_bio(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// One block of a PEM text.
struct Block {
  std::string name;  // "CERTIFICATE"
  bool has_headers = false;
  std::vector<unsigned char> bytes;
};

// All blocks, up to the first that is broken.
std::vector<Block> read_blocks(const std::string& pem) {
  std::vector<Block> blocks;
  const Bio bio = open_bio(pem);
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long size = 0;
  while (PEM_read_bio(bio.get(), &name, &header, &data, &size) == 1) {
    blocks.push_back({name, *header != '\0', {data, data + size}});
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_clear_free(data, static_cast<size_t>(size));
  }
  ERR_clear_error();
  return blocks;
}

bool is_certificate(const Block& block) { return block.name == "CERTIFICATE"; }

Certificate parse_certificate(const Block& block) {
  const unsigned char* at = block.bytes.data();
  return Certificate(d2i_X509(nullptr, &at, static_cast<long>(block.bytes.size())));
}

// As Go has it: of several certificates, those that cannot be read are passed over.
Result<> trust(SSL_CTX* context, const std::string& pem) {
  if (pem.empty()) return {};
  const std::string what = "unable to load root certificates: ";
  const std::vector<Block> blocks = read_blocks(pem);
  if (blocks.empty()) return invalid(what + "unable to parse bytes as PEM block");
  bool broken = false;
  bool found = false;
  for (const Block& block : blocks) {
    if (!is_certificate(block) || block.has_headers) continue;
    const Certificate certificate = parse_certificate(block);
    broken = broken || !certificate;
    if (!certificate) continue;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate.get()) != 1) {
      return invalid(what + reason());
    }
    found = true;
  }
  ERR_clear_error();
  if (found) return {};
  if (broken) return invalid(what + "failed to parse certificate: x509: malformed certificate");
  return invalid(what + "no valid certificate authority data seen");
}

void trust_system(SSL_CTX* context) {
  SSL_CTX_set_default_verify_paths(context);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment once threads run
  if (std::getenv("SSL_CERT_FILE") != nullptr || std::getenv("SSL_CERT_DIR") != nullptr) return;
  // The library's own place is that of the machine where it was built; images have others.
  for (const char* path : kSystemRoots) {
    if (SSL_CTX_load_verify_locations(context, path, nullptr) == 1) break;
  }
  ERR_clear_error();
}

// Our certificate, then those between it and the root.
Result<> use_certificates(SSL_CTX* context, const std::string& pem) {
  const std::vector<Block> blocks = read_blocks(pem);
  if (blocks.empty()) return invalid("tls: failed to find any PEM data in certificate input");
  bool leaf = true;
  for (const Block& block : blocks) {
    if (!is_certificate(block)) continue;
    const Certificate certificate = parse_certificate(block);
    if (!certificate) return invalid("x509: malformed certificate");
    const auto taken = leaf ? SSL_CTX_use_certificate(context, certificate.get())
                            : SSL_CTX_add1_chain_cert(context, certificate.get());
    if (taken != 1) return invalid("tls: the certificate cannot be used: " + reason());
    leaf = false;
  }
  if (!leaf) return {};
  const bool switched = blocks.front().name.ends_with("PRIVATE KEY");
  return invalid(
      switched ? "tls: failed to find certificate PEM data in certificate input, but did find a "
                 "private key; PEM inputs may have been switched"
               : "tls: failed to find \"CERTIFICATE\" PEM block in certificate input");
}

// Called when a key is protected by a passphrase. Without it the library would ask on the terminal.
int no_passphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

Result<> use_key(SSL_CTX* context, const std::string& pem) {
  const Bio bio = open_bio(pem);
  bool asked = false;
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &no_passphrase, &asked));
  if (asked) {
    return invalid("tls: failed to parse private key: it is protected by a passphrase");
  }
  if (!key) {
    const std::vector<Block> blocks = read_blocks(pem);
    if (blocks.empty()) return invalid("tls: failed to find any PEM data in key input");
    if (is_certificate(blocks.front())) {
      return invalid("tls: found a certificate rather than a key in the PEM for the private key");
    }
    return invalid("tls: failed to parse private key");
  }
  // Asked for by itself, as SSL_CTX_use_PrivateKey may drop the certificate when they differ in kind.
  X509* certificate = SSL_CTX_get0_certificate(context);
  if (certificate == nullptr || X509_check_private_key(certificate, key.get()) != 1) {
    return invalid("tls: private key does not match public key");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return invalid("tls: the private key cannot be used: " + reason());
  }
  return {};
}

void set_rules(SSL_CTX* context, bool verify) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_verify(context, verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  X509_VERIFY_PARAM* rules = SSL_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_hostflags(
      rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  // Parity: whoever is listed as a CA is one, be it a root, an intermediate or the server itself.
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_PARTIAL_CHAIN);
}

}  // namespace

Result<TlsContext> make_tls_context(const TlsOptions& options) {
  TlsContext made;
  try {
    made = std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tls_client);
  } catch (const std::exception& error) {
    return base::fail(ErrorCode::System, std::string("tls: ") + error.what());
  }
  SSL_CTX* context = made->native_handle();
  set_rules(context, options.verify);
  if (!options.ca_pem) {
    trust_system(context);
  } else {
    TRY(trust(context, *options.ca_pem));
  }
  if (!options.cert_pem.empty() || !options.key_pem.empty()) {
    TRY(use_certificates(context, options.cert_pem));
    TRY(use_key(context, options.key_pem));
  }
  return made;
}

}  // namespace http
