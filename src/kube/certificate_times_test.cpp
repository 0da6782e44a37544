#include "kube/certificate_times.h"

#include <gtest/gtest.h>

#include "support/pki.h"

namespace kube {
namespace {

TEST(CertificateTimes, AreThoseOfTheFirstCertificate) {
  const pki::Pair pair = pki::make("us");
  const auto times = certificate_times("text before\n" + pair.cert + pki::make("ca").cert);
  ASSERT_TRUE(times);
  const auto now = std::chrono::system_clock::now();
  EXPECT_LE(times->not_before, now);
  EXPECT_GT(times->not_after, now);
}

TEST(CertificateTimes, AreNothingWithoutACertificate) {
  EXPECT_FALSE(certificate_times(""));
  EXPECT_FALSE(certificate_times("no PEM"));
  EXPECT_FALSE(certificate_times(pki::make("us").key));
}

}  // namespace
}  // namespace kube
