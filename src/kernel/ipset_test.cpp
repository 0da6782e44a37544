#include "kernel/ipset.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/process.h"
#include "support/own_network.h"

namespace kernel {
namespace {

using base::ErrorCode;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class IpsetTest : public build::OwnNetwork {
 protected:
  void SetUp() override {
    OwnNetwork::SetUp();
    if (IsSkipped()) return;
    auto opened = Ipset::open();
    if (!opened) GTEST_SKIP() << "needs sets in the kernel: " << opened.error().text;
    ipset_.emplace(std::move(*opened));
    if (!works({"ipset", "--version"})) GTEST_SKIP() << "needs the program ipset";
  }

  static bool works(std::vector<std::string> argv) {
    const auto output = run({.argv = std::move(argv)});
    return output && output->ok();
  }

  std::vector<std::string> names() {
    const auto sets = ipset_->list();
    if (!sets) return {sets.error().text};
    std::vector<std::string> found;
    for (const auto& set : *sets)
      found.push_back(set.name);
    return found;
  }

  std::optional<Ipset> ipset_;
};

TEST_F(IpsetTest, ListsWhatThereIs) {
  EXPECT_THAT(names(), IsEmpty());
  ASSERT_TRUE(works({"ipset", "create", "one", "hash:ip,port"}));
  ASSERT_TRUE(
      works({"ipset", "create", "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS", "hash:ip", "family", "inet6"}));
  EXPECT_THAT(names(), UnorderedElementsAre("one", "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS"));
}

TEST_F(IpsetTest, DestroysASetWithItsMembers) {
  ASSERT_TRUE(works({"ipset", "create", "one", "bitmap:port", "range", "0-65535"}));
  ASSERT_TRUE(works({"ipset", "add", "one", "80"}));
  ASSERT_TRUE(works({"ipset", "create", "other", "hash:ip"}));
  EXPECT_TRUE(ipset_->destroy("one"));
  EXPECT_THAT(names(), UnorderedElementsAre("other"));
}

TEST_F(IpsetTest, ASetThatIsNotThereIsNotFound) {
  const auto done = ipset_->destroy("one");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::NotFound);
}

TEST_F(IpsetTest, ASetInUseIsBusyAndTheErrorSaysHowToFindOutWhy) {
  ASSERT_TRUE(works({"ipset", "create", "one", "hash:ip"}));
  ASSERT_TRUE(works({"ipset", "create", "all", "list:set"}));
  ASSERT_TRUE(works({"ipset", "add", "all", "one"}));
  const auto done = ipset_->destroy("one");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::Busy);
  EXPECT_EQ(done.error().text,
            "destroy ipset one: still used by 1 rules; find them with `iptables-save | grep one`, "
            "and with ip6tables-save");
}

}  // namespace
}  // namespace kernel
