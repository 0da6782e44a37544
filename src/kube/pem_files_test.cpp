#include "kube/pem_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/testing.h"
#include "support/pki.h"

namespace kube {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class PemFilesTest : public testing::Test {
 protected:
  PemFilesTest() {
    folder_.write("ca", ca_.cert);
    folder_.write("cert", us_.cert);
    folder_.write("key", us_.key);
    access_.ca.file = folder_.path("ca");
    access_.cert.file = folder_.path("cert");
    access_.key.file = folder_.path("key");
  }

  PemFiles make() { return PemFiles(access_, told_.tell(), time_.clocks()); }
  PemFiles opened() {
    PemFiles files = make();
    const auto opened = files.open();
    EXPECT_TRUE(opened) << opened.error().text;
    return files;
  }
  std::string open_error() {
    const auto opened = make().open();
    return opened ? "" : opened.error().text;
  }
  // After more than a second.
  void look(PemFiles& files) {
    time_.pass(1s);
    files.look();
  }

  TestFolder folder_;
  TestTime time_;
  Told told_;
  pki::Pair ca_ = pki::make("ca");
  pki::Pair us_ = pki::make("us");
  config::Access access_{.server = "https://x"};
};

TEST_F(PemFilesTest, ReadsThemAll) {
  const PemFiles files = opened();
  const auto options = files.options();
  ASSERT_TRUE(options);
  EXPECT_TRUE(options->verify);
  EXPECT_EQ(options->ca_pem, ca_.cert);
  EXPECT_EQ(options->cert_pem, us_.cert);
  EXPECT_EQ(options->key_pem, us_.key);
}

TEST_F(PemFilesTest, WithoutACaTheSystemsRootsCount) {
  access_ = {.insecure = true};
  const PemFiles files = opened();
  EXPECT_FALSE(files.options()->ca_pem);
  EXPECT_FALSE(files.options()->verify);
}

TEST_F(PemFilesTest, AnEmptyCaFileTrustsNobody) {
  folder_.write("ca", "");
  EXPECT_EQ(opened().options()->ca_pem, "");
}

TEST_F(PemFilesTest, ANewPairComesIntoForceWithinASecond) {
  PemFiles files = opened();
  const pki::Pair next = pki::make("next");
  folder_.write("cert", next.cert);
  folder_.write("key", next.key);
  time_.pass(999ms);
  files.look();
  EXPECT_EQ(files.generation(), 0U);
  time_.pass(1ms);
  files.look();
  EXPECT_EQ(files.generation(), 1U);
  EXPECT_EQ(files.options()->cert_pem, next.cert);
  EXPECT_EQ(files.options()->key_pem, next.key);
  look(files);
  EXPECT_EQ(files.generation(), 1U);
  EXPECT_EQ(told_.take(), "");
}

TEST_F(PemFilesTest, HalfANewPairWaitsForTheOtherHalf) {
  PemFiles files = opened();
  const pki::Pair next = pki::make("next");
  folder_.write("cert", next.cert);
  look(files);
  EXPECT_EQ(files.generation(), 0U);
  EXPECT_EQ(files.options()->cert_pem, us_.cert);
  EXPECT_EQ(told_.take(), "Loading client cert failed: " + folder_.path("cert") +
                              ": tls: private key does not match public key\n");
  folder_.write("key", next.key);
  look(files);
  EXPECT_EQ(files.generation(), 1U);
  EXPECT_EQ(files.options()->cert_pem, next.cert);
}

TEST_F(PemFilesTest, APairThatCannotBeReadKeepsTheOldAndIsToldEveryFiveMinutes) {
  PemFiles files = opened();
  folder_.remove("key");
  look(files);
  EXPECT_EQ(files.options()->key_pem, us_.key);
  EXPECT_EQ(told_.take(), "Loading client cert failed: open " + folder_.path("key") +
                              ": no such file or directory\n");
  look(files);
  EXPECT_EQ(told_.take(), "");
  time_.pass(5min);
  look(files);
  EXPECT_THAT(told_.take(), HasSubstr("Loading client cert failed"));
  folder_.write("key", us_.key);
  look(files);
  EXPECT_EQ(files.generation(), 0U);  // it is the old one
}

TEST_F(PemFilesTest, APairOfFilesThatNeverFitIsAnErrorUntilItIsMended) {
  folder_.write("key", ca_.key);
  PemFiles files = opened();
  EXPECT_THAT(told_.take(), HasSubstr("private key does not match public key"));
  EXPECT_EQ(files.options().error().text,
            folder_.path("cert") + ": tls: private key does not match public key");
  folder_.write("key", us_.key);
  look(files);
  EXPECT_TRUE(files.options());
  EXPECT_EQ(files.generation(), 0U);
}

TEST_F(PemFilesTest, APairInTheKubeconfigMustFit) {
  access_.cert = {.data = us_.cert};
  access_.key = {.data = ca_.key};
  EXPECT_EQ(open_error(), "tls: private key does not match public key");
  access_.key = {.file = folder_.write("key", ca_.key)};
  EXPECT_EQ(open_error(), "tls: private key does not match public key");
  access_.key = {.data = us_.key};
  PemFiles files = opened();
  EXPECT_EQ(files.options()->key_pem, us_.key);
}

TEST_F(PemFilesTest, ANewCaComesIntoForce) {
  PemFiles files = opened();
  const pki::Pair next = pki::make("next");
  folder_.write("ca", ca_.cert + next.cert);
  look(files);
  EXPECT_EQ(files.generation(), 1U);
  EXPECT_EQ(files.options()->ca_pem, ca_.cert + next.cert);
}

TEST_F(PemFilesTest, ACaThatMakesNoSenseKeepsTheOld) {
  PemFiles files = opened();
  folder_.write("ca", "");
  look(files);
  EXPECT_THAT(told_.notices.at(0).fields, ElementsAre(Pair("caFile", folder_.path("ca"))));
  EXPECT_EQ(told_.notices.at(0).severity, Notice::Severity::Info);
  EXPECT_EQ(told_.take(), "CA file empty, skipping transport rotation\n");
  folder_.write("ca", "garbage");
  look(files);
  EXPECT_EQ(told_.notices.at(0).severity, Notice::Severity::Error);
  EXPECT_EQ(told_.take(),
            "Failed to parse CA data from file: unable to load root certificates: unable to parse "
            "bytes as PEM block\n");
  folder_.remove("ca");
  look(files);
  EXPECT_EQ(told_.take(), "Failed to read CA data from file: open " + folder_.path("ca") +
                              ": no such file or directory\n");
  EXPECT_EQ(files.options()->ca_pem, ca_.cert);
  EXPECT_EQ(files.generation(), 0U);
}

TEST_F(PemFilesTest, ACaThatMakesNoSenseAtTheStartIsAnError) {
  folder_.write("ca", "garbage");
  EXPECT_EQ(open_error(), "unable to load root certificates: unable to parse bytes as PEM block");
  access_.ca = {.file = folder_.path("")};
  EXPECT_THAT(open_error(), HasSubstr("is a directory"));
}

TEST_F(PemFilesTest, APodWithoutItsCaTrustsTheSystemsRoots) {
  access_ = {.ca = {.file = folder_.path("none")}, .in_cluster = true};
  PemFiles files = opened();
  EXPECT_FALSE(files.options()->ca_pem);
  EXPECT_EQ(told_.notices.at(0).severity, Notice::Severity::Error);
  EXPECT_EQ(told_.take(), "Expected to load root CA config from " + folder_.path("none") +
                              ", but got err: open " + folder_.path("none") +
                              ": no such file or directory\n");
  folder_.write("none", ca_.cert);
  look(files);
  EXPECT_FALSE(files.options()->ca_pem);
}

}  // namespace
}  // namespace kube
