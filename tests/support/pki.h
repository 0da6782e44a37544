// Keys and certificates for tests, made on the spot: nothing to expire in the repository.
#pragma once

#include <memory>
#include <string>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace pki {

// A certificate and its key, as PEM.
struct Pair {
  std::string cert;
  std::string key;
};

namespace detail {

inline std::string text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string out(data, static_cast<size_t>(size));
  BIO_free(bio);
  return out;
}

inline std::string write_key(EVP_PKEY* key, const std::string& passphrase) {
  BIO* bio = BIO_new(BIO_s_mem());
  const EVP_CIPHER* cipher = passphrase.empty() ? nullptr : EVP_aes_128_cbc();
  PEM_write_bio_PrivateKey(bio, key, cipher,
                           reinterpret_cast<const unsigned char*>(passphrase.data()),
                           static_cast<int>(passphrase.size()), nullptr, nullptr);
  return text(bio);
}

inline void add_extension(X509* certificate, int id, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace detail

// Self-signed, a CA and a server or client at once; `alternative` as in "DNS:x,IP:127.0.0.1". The key
// is under the passphrase, if there is one.
inline Pair make(const std::string& name, const std::string& alternative = "",
                 const std::string& passphrase = "") {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 24 * 3600);
  X509_NAME* subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, subject);
  X509_set_pubkey(certificate, key);
  detail::add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  if (!alternative.empty()) {
    detail::add_extension(certificate, NID_subject_alt_name, alternative);
  }
  X509_sign(certificate, key, EVP_sha256());

  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  Pair pair{detail::text(bio), detail::write_key(key, passphrase)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pair;
}

}  // namespace pki
