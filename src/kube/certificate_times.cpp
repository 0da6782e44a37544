#include "kube/certificate_times.h"

#include <time.h>

#include <memory>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

namespace kube {
namespace {

std::optional<std::chrono::sys_seconds> to_time(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return std::nullopt;
  return std::chrono::sys_seconds(std::chrono::seconds(::timegm(&parts)));
}

}  // namespace

std::optional<CertificateTimes> certificate_times(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr), &X509_free);
  ERR_clear_error();
  if (!certificate) return std::nullopt;
  const auto not_before = to_time(X509_get0_notBefore(certificate.get()));
  const auto not_after = to_time(X509_get0_notAfter(certificate.get()));
  if (!not_before || !not_after) return std::nullopt;
  return CertificateTimes{*not_before, *not_after};
}

}  // namespace kube
