#include "http/tls.h"

#include <boost/asio/ssl/context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "support/pki.h"

namespace http {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kBrokenCertificate =
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

std::string error_of(const TlsOptions& options) {
  const auto context = make_tls_context(options);
  return context ? "" : context.error().text;
}

std::string ca_error(const std::string& pem) { return error_of({.ca_pem = pem}); }

std::string pair_error(const std::string& cert, const std::string& key) {
  return error_of({.cert_pem = cert, .key_pem = key});
}

// Moves what one side wrote to the other.
void carry(SSL* from, SSL* to) {
  char buffer[16384];
  int size = 0;
  while ((size = BIO_read(SSL_get_wbio(from), buffer, sizeof buffer)) > 0)
    BIO_write(SSL_get_rbio(to), buffer, size);
}

// What becomes of a handshake between a context of ours and a server with this pair, in memory.
struct Handshake {
  bool done = false;
  bool client_certificate = false;  // the server saw one
  int version = 0;
};

Handshake shake_hands(const TlsContext& ours, const pki::Pair& server, int max_version = 0,
                      const char* name = nullptr) {
  const auto theirs = make_tls_context({.cert_pem = server.cert, .key_pem = server.key});
  SSL_CTX* server_context = SSL_CTX_new(TLS_server_method());
  if (max_version != 0) {
    SSL_CTX_set_min_proto_version(server_context, max_version);
    SSL_CTX_set_max_proto_version(server_context, max_version);
    SSL_CTX_set_security_level(server_context, 0);
  }
  SSL_CTX* pair = theirs.value()->native_handle();
  SSL_CTX_use_certificate(server_context, SSL_CTX_get0_certificate(pair));
  SSL_CTX_use_PrivateKey(server_context, SSL_CTX_get0_privatekey(pair));
  SSL_CTX_set_verify(server_context, SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
  SSL* there = SSL_new(server_context);
  SSL* here = SSL_new(ours->native_handle());
  for (SSL* side : {there, here})
    SSL_set_bio(side, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_accept_state(there);
  SSL_set_connect_state(here);
  if (name != nullptr) SSL_set1_host(here, name);
  for (int round = 0; round < 10; ++round) {
    SSL_do_handshake(here);
    carry(here, there);
    SSL_do_handshake(there);
    carry(there, here);
  }
  Handshake result{.done = SSL_is_init_finished(here) == 1 && SSL_is_init_finished(there) == 1,
                   .client_certificate = SSL_get0_peer_certificate(there) != nullptr,
                   .version = SSL_version(here)};
  SSL_free(here);
  SSL_free(there);
  SSL_CTX_free(server_context);
  return result;
}

TlsContext trusting(const std::string& ca) { return make_tls_context({.ca_pem = ca}).value(); }

TEST(Tls, TrustsEachCaOfTheText) {
  const pki::Pair one = pki::make("one", "DNS:x");
  const pki::Pair two = pki::make("two", "DNS:x");
  const pki::Pair other = pki::make("other", "DNS:x");
  const TlsContext both = trusting(one.cert + "some words between\n" + two.cert);
  EXPECT_TRUE(shake_hands(both, one).done);
  EXPECT_TRUE(shake_hands(both, two).done);
  EXPECT_FALSE(shake_hands(both, other).done);
}

TEST(Tls, PassesOverACaThatCannotBeReadBesideOneThatCan) {
  const pki::Pair ca = pki::make("ca");
  EXPECT_TRUE(shake_hands(trusting(kBrokenCertificate + ca.cert), ca).done);
}

TEST(Tls, AnEmptyTextTrustsNobody) { EXPECT_FALSE(shake_hands(trusting(""), pki::make("x")).done); }

TEST(Tls, TheSystemsRootsDoNotTrustAStranger) {
  EXPECT_FALSE(shake_hands(make_tls_context({}).value(), pki::make("x")).done);
}

TEST(Tls, VerifiesUnlessToldOtherwise) {
  const TlsContext careless = make_tls_context({.verify = false}).value();
  EXPECT_TRUE(shake_hands(careless, pki::make("x")).done);
}

TEST(Tls, NeedsTls12) {
  const pki::Pair ca = pki::make("ca");
  EXPECT_FALSE(shake_hands(trusting(ca.cert), ca, TLS1_1_VERSION).done);
  EXPECT_TRUE(shake_hands(trusting(ca.cert), ca, TLS1_2_VERSION).done);
  EXPECT_EQ(shake_hands(trusting(ca.cert), ca).version, TLS1_3_VERSION);
}

TEST(Tls, TheNameOfAServerIsAmongItsAlternativeNames) {
  const pki::Pair with = pki::make("other", "DNS:api.example.com");
  const pki::Pair without = pki::make("api.example.com");
  EXPECT_TRUE(shake_hands(trusting(with.cert), with, 0, "api.example.com").done);
  EXPECT_FALSE(shake_hands(trusting(with.cert), with, 0, "other").done);
  // Its subject does not count, as for Go.
  EXPECT_FALSE(shake_hands(trusting(without.cert), without, 0, "api.example.com").done);
}

TEST(Tls, ShowsOurCertificate) {
  const pki::Pair ca = pki::make("ca");
  const pki::Pair us = pki::make("us");
  const auto context =
      make_tls_context({.ca_pem = ca.cert, .cert_pem = us.cert, .key_pem = us.key});
  ASSERT_TRUE(context) << context.error().text;
  EXPECT_TRUE(shake_hands(*context, ca).client_certificate);
  EXPECT_FALSE(shake_hands(trusting(ca.cert), ca).client_certificate);
}

TEST(Tls, CertificateAndKeyMayStandInOneFile) {
  const pki::Pair us = pki::make("us");
  EXPECT_EQ(pair_error(us.cert + us.key, us.cert + us.key), "");
  EXPECT_EQ(pair_error(us.key + us.cert, us.key + us.cert), "");
}

// The texts are those of kube-proxy v1.36.4, as it printed them for the same files.
TEST(Tls, TellsWhatIsWrongWithACa) {
  const std::string what = "unable to load root certificates: ";
  EXPECT_EQ(ca_error("garbage"), what + "unable to parse bytes as PEM block");
  EXPECT_EQ(ca_error(kBrokenCertificate),
            what + "failed to parse certificate: x509: malformed certificate");
  EXPECT_EQ(ca_error(pki::make("x").key), what + "no valid certificate authority data seen");
}

TEST(Tls, TellsWhatIsWrongWithAPair) {
  const pki::Pair a = pki::make("a");
  const pki::Pair b = pki::make("b");
  EXPECT_EQ(pair_error(a.cert, b.key), "tls: private key does not match public key");
  EXPECT_EQ(pair_error("", a.key), "tls: failed to find any PEM data in certificate input");
  EXPECT_EQ(pair_error("garbage", a.key), "tls: failed to find any PEM data in certificate input");
  EXPECT_EQ(pair_error(a.cert, ""), "tls: failed to find any PEM data in key input");
  EXPECT_EQ(pair_error(a.cert, "garbage"), "tls: failed to find any PEM data in key input");
  EXPECT_EQ(pair_error(a.key, a.cert),
            "tls: failed to find certificate PEM data in certificate input, but did find a private "
            "key; PEM inputs may have been switched");
  EXPECT_EQ(pair_error(a.cert, a.cert),
            "tls: found a certificate rather than a key in the PEM for the private key");
  EXPECT_EQ(pair_error(kBrokenCertificate, a.key), "x509: malformed certificate");
  EXPECT_EQ(
      pair_error(a.cert, "-----BEGIN EC PRIVATE KEY-----\nMIIB\n-----END EC PRIVATE KEY-----"),
      "tls: failed to parse private key");
}

TEST(Tls, NeverAsksForAPassphrase) {
  const pki::Pair us = pki::make("us", "", "open sesame");
  const std::string error = pair_error(us.cert, us.key);
  EXPECT_EQ(error, "tls: failed to parse private key: it is protected by a passphrase");
}

TEST(Tls, ErrorsHoldNothingOfAKey) {
  const pki::Pair us = pki::make("us");
  const std::string inside = us.key.substr(us.key.find('\n') + 1, 40);
  std::string cut = us.key;
  cut.erase(cut.size() / 2, 8);
  for (const std::string& key : {us.key, cut, us.key.substr(0, us.key.size() / 2), "x" + us.key}) {
    EXPECT_THAT(pair_error(pki::make("other").cert, key), Not(HasSubstr(inside)));
    EXPECT_THAT(ca_error(key), Not(HasSubstr(inside)));
    EXPECT_THAT(pair_error(key, us.key), Not(HasSubstr(inside)));
  }
}

}  // namespace
}  // namespace http
