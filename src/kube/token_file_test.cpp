#include "kube/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/testing.h"

namespace kube {
namespace {

using namespace std::chrono_literals;

class TokenFileTest : public testing::Test {
 protected:
  TokenFile make(const std::string& fallback = "") {
    return TokenFile(folder_.path("token"), fallback, told_.tell(), time_.clocks());
  }

  TestFolder folder_;
  TestTime time_;
  Told told_;
};

TEST_F(TokenFileTest, ATokenIsKeptFor50Seconds) {
  folder_.write("token", " first\n");
  TokenFile file = make();
  ASSERT_TRUE(file.open());
  EXPECT_EQ(file.token(), "first");
  folder_.write("token", "second");
  time_.pass(49s);
  EXPECT_EQ(file.token(), "first");
  time_.pass(1s);
  EXPECT_EQ(file.token(), "second");
}

TEST_F(TokenFileTest, ARefusedTokenIsReadAgainAtOnce) {
  folder_.write("token", "first");
  TokenFile file = make();
  ASSERT_TRUE(file.open());
  folder_.write("token", "second");
  file.refused();
  EXPECT_EQ(file.token(), "second");
}

TEST_F(TokenFileTest, WhatCannotBeReadKeepsTheOldTokenAndIsTold) {
  folder_.write("token", "first");
  TokenFile file = make();
  ASSERT_TRUE(file.open());
  folder_.remove("token");
  time_.pass(50s);
  EXPECT_EQ(file.token(), "first");
  EXPECT_EQ(told_.notices.at(0).severity, Notice::Severity::Error);
  EXPECT_EQ(told_.take(), "Unable to rotate token: failed to read token file \"" +
                              folder_.path("token") + "\": open " + folder_.path("token") +
                              ": no such file or directory\n");
  // Not with every request; but if it goes on.
  EXPECT_EQ(file.token(), "first");
  EXPECT_EQ(told_.take(), "");
  time_.pass(1min);
  EXPECT_EQ(file.token(), "first");
  EXPECT_NE(told_.take(), "");
  // An empty one is being written, most likely.
  folder_.write("token", " \n");
  EXPECT_EQ(file.token(), "first");
  EXPECT_EQ(told_.take(), "Unable to rotate token: read empty token from file \"" +
                              folder_.path("token") + "\"\n");
  folder_.write("token", "second");
  EXPECT_EQ(file.token(), "second");
}

TEST_F(TokenFileTest, MustBeThereAtFirst) {
  EXPECT_EQ(make().open().error().text, "failed to read token file \"" + folder_.path("token") +
                                            "\": open " + folder_.path("token") +
                                            ": no such file or directory");
  folder_.write("token", "");
  EXPECT_EQ(make().open().error().text,
            "read empty token from file \"" + folder_.path("token") + "\"");
}

TEST_F(TokenFileTest, BesideATokenInTheKubeconfigTheFileMayComeLater) {
  TokenFile file = make("fallback");
  ASSERT_TRUE(file.open());
  EXPECT_EQ(file.token(), "fallback");
  EXPECT_EQ(told_.take(), "");
  folder_.write("token", "of the file");
  EXPECT_EQ(file.token(), "of the file");
}

}  // namespace
}  // namespace kube
