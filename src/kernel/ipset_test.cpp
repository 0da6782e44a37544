#include "kernel/ipset.h"

#include <linux/netfilter/ipset/ip_set.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/ipset_message.h"
#include "kernel/process.h"
#include "support/own_network.h"

namespace kernel {
namespace {

using base::ErrorCode;
using net::Family;
using net::Protocol;
using testing::ElementsAre;
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

// What ipset(8) prints for it, without what differs between its versions.
std::string saved(const std::string& set) {
  const auto output = run({.argv = {"ipset", "-sorted", "save", set}});
  if (!output) return output.error().text;
  std::string text = output->out;
  if (const auto at = text.find(" bucketsize"); at != std::string::npos)
    text.erase(at, text.find('\n', at) - at);
  return text;
}

net::IpAddr ip(const char* text) { return *net::IpAddr::parse(text); }

// An entry for every kind of set, with its text.
struct Example {
  SetType type;
  Family family;
  SetEntry entry;
  std::string text;
};
std::vector<Example> examples() {
  const auto four = ip("10.0.0.1");
  const auto six = ip("fd00::1");
  const auto host = [](const net::IpAddr& address) { return net::Cidr::host(address); };
  return {
      {SetType::HashIp, Family::V4, {.ip = four}, "10.0.0.1"},
      {SetType::HashIp, Family::V6, {.ip = six}, "fd00::1"},
      {SetType::HashIpPort, Family::V4, {four, Protocol::Tcp, 80, {}}, "10.0.0.1,tcp:80"},
      {SetType::HashIpPort, Family::V6, {six, Protocol::Sctp, 65535, {}}, "fd00::1,sctp:65535"},
      {SetType::HashIpPortIp,
       Family::V4,
       {four, Protocol::Udp, 53, host(ip("10.0.0.2"))},
       "10.0.0.1,udp:53,10.0.0.2"},
      {SetType::HashIpPortIp,
       Family::V6,
       {six, Protocol::Tcp, 1, host(six)},
       "fd00::1,tcp:1,fd00::1"},
      {SetType::HashIpPortNet,
       Family::V4,
       {four, Protocol::Tcp, 80, *net::Cidr::parse("192.168.0.0/16")},
       "10.0.0.1,tcp:80,192.168.0.0/16"},
      {SetType::HashIpPortNet,
       Family::V4,
       {four, Protocol::Tcp, 80, host(ip("192.168.0.1"))},
       "10.0.0.1,tcp:80,192.168.0.1"},
      {SetType::HashIpPortNet,
       Family::V6,
       {six, Protocol::Tcp, 80, *net::Cidr::parse("8000::/1")},
       "fd00::1,tcp:80,8000::/1"},
      {SetType::BitmapPort, Family::V4, {.port = 30080}, "30080"},
      {SetType::BitmapPort, Family::V6, {.port = 0}, "0"},
  };
}

TEST_F(IpsetTest, EntriesOfEveryTypeAreThoseOfTheProgramIpset) {
  for (const auto& [type, family, entry, text] : examples()) {
    const std::string kind(name(type));
    ASSERT_TRUE(ipset_->check(type, family)) << kind;
    ASSERT_TRUE(ipset_->create("one", type, family)) << kind;
    EXPECT_THAT(ipset_->members("one", type).value(), IsEmpty());
    Ipset::Changes changes;
    changes.add("one", type, entry);
    EXPECT_THAT(ipset_->apply(std::move(changes)).value(), IsEmpty()) << text;
    EXPECT_THAT(ipset_->members("one", type).value(), ElementsAre(entry)) << text;
    const bool ports = type == SetType::BitmapPort;
    const std::string header = ports ? " range 0-65535"
                                     : std::string(" family ") +
                                           (family == Family::V4 ? "inet" : "inet6") +
                                           " hashsize 1024 maxelem 65536";
    EXPECT_EQ(saved("one"), "create one " + kind + header + "\nadd one " + text + "\n");

    ASSERT_TRUE(works({"ipset", "del", "one", text})) << text;
    EXPECT_THAT(ipset_->members("one", type).value(), IsEmpty()) << text;
    ASSERT_TRUE(works({"ipset", "add", "one", text})) << text;
    Ipset::Changes removal;
    removal.remove("one", type, entry);
    EXPECT_THAT(ipset_->apply(std::move(removal)).value(), IsEmpty()) << text;
    EXPECT_THAT(ipset_->members("one", type).value(), IsEmpty()) << text;
    ASSERT_TRUE(ipset_->destroy("one"));
  }
}

TEST_F(IpsetTest, ASetIsCreatedAsTheProgramIpsetDoes) {
  ASSERT_TRUE(ipset_->create("ours", SetType::HashIpPort, Family::V4));
  ASSERT_TRUE(works({"ipset", "create", "-exist", "ours", "hash:ip,port", "family", "inet",
                     "hashsize", "1024", "maxelem", "65536"}));
}

TEST_F(IpsetTest, ASetThatIsThereIsLeftAloneWhateverItsSize) {
  ASSERT_TRUE(works({"ipset", "create", "one", "hash:ip", "maxelem", "1000000"}));
  ASSERT_TRUE(works({"ipset", "add", "one", "10.0.0.1"}));
  const auto done = ipset_->create("one", SetType::HashIp, Family::V4);
  EXPECT_TRUE(done) << done.error().text;
  EXPECT_EQ(ipset_->members("one", SetType::HashIp)->size(), 1U);
}

TEST_F(IpsetTest, ASetOfAnotherKindIsTold) {
  ASSERT_TRUE(works({"ipset", "create", "one", "hash:ip", "family", "inet6"}));
  const auto family = ipset_->create("one", SetType::HashIp, Family::V4);
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().code, ErrorCode::Exists);
  EXPECT_EQ(family.error().text,
            "ipset one is of another kind: hash:ip of IPv6, where hash:ip of "
            "IPv4 is needed; destroy it with `ipset destroy one`");
  const auto type = ipset_->create("one", SetType::BitmapPort, Family::V6);
  ASSERT_FALSE(type);
  EXPECT_EQ(type.error().code, ErrorCode::Exists);
  const auto members = ipset_->members("one", SetType::BitmapPort);
  ASSERT_FALSE(members);
  EXPECT_EQ(members.error().code, ErrorCode::Exists);
}

TEST_F(IpsetTest, MembersOfNoSetAreNotFound) {
  const auto members = ipset_->members("one", SetType::HashIp);
  ASSERT_FALSE(members);
  EXPECT_EQ(members.error().code, ErrorCode::NotFound) << members.error().text;
  // The refusal is not taken for the answer to the next question.
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(IpsetTest, AddingTwiceAndRemovingTwiceIsNoFailure) {
  ASSERT_TRUE(ipset_->create("one", SetType::HashIp, Family::V4));
  Ipset::Changes changes;
  for (int i = 0; i < 2; ++i)
    changes.add("one", SetType::HashIp, {.ip = ip("10.0.0.1")});
  for (int i = 0; i < 2; ++i)
    changes.remove("one", SetType::HashIp, {.ip = ip("10.0.0.1")});
  EXPECT_THAT(ipset_->apply(std::move(changes)).value(), IsEmpty());
}

TEST_F(IpsetTest, ThousandsOfMembersAreWrittenAndReadBack) {
  ASSERT_TRUE(ipset_->create("one", SetType::HashIpPort, Family::V4));
  Ipset::Changes changes;
  std::vector<SetEntry> entries;
  for (uint32_t i = 0; i < 10'000; ++i) {
    entries.push_back({net::IpAddr::v4(0x0a000001 + i), Protocol::Tcp, 80, {}});
    changes.add("one", SetType::HashIpPort, entries.back());
  }
  EXPECT_THAT(ipset_->apply(std::move(changes)).value(), IsEmpty());
  auto members = ipset_->members("one", SetType::HashIpPort).value();
  std::ranges::sort(members);
  EXPECT_EQ(members, entries);
}

TEST_F(IpsetTest, WhatFailsIsToldInWordsAndTheRestHappens) {
  ASSERT_TRUE(works({"ipset", "create", "one", "hash:ip", "maxelem", "1"}));
  Ipset::Changes changes;
  changes.add("one", SetType::HashIp, {.ip = ip("fd00::1")});
  changes.add("one", SetType::HashIp, {.ip = ip("10.0.0.1")});
  changes.add("one", SetType::HashIp, {.ip = ip("10.0.0.2")});
  changes.add("two", SetType::HashIp, {.ip = ip("10.0.0.1")});
  const auto failures = ipset_->apply(std::move(changes));
  ASSERT_TRUE(failures) << failures.error().text;
  std::vector<std::string> told;
  for (const auto& [place, number] : *failures)
    told.push_back(std::to_string(place) + ": " + Ipset::explain(number));
  EXPECT_THAT(told, ElementsAre("0: the set does not take such entries", "2: the set is full",
                                "3: there is no such set"));
  EXPECT_EQ(ipset_->members("one", SetType::HashIp)->size(), 1U);
}

TEST(IpsetMessage, ReadsWhatIsWritten) {
  for (const auto& [type, family, entry, text] : examples()) {
    netlink::Message message;
    nlmsghdr* header = message.add_netfilter(0, 0, AF_INET);
    nlattr* list = mnl_attr_nest_start(header, IPSET_ATTR_ADT);
    put_entry(header, type, entry);
    mnl_attr_nest_end(header, list);
    EXPECT_THAT(decode_members(*header, type), ElementsAre(entry)) << text;
  }
}

TEST(IpsetMessage, AMemberThatIsNotWholeIsLeftOut) {
  netlink::Message message;
  nlmsghdr* header = message.add_netfilter(0, 0, AF_INET);
  nlattr* list = mnl_attr_nest_start(header, IPSET_ATTR_ADT);
  put_entry(header, SetType::HashIp, {.ip = ip("10.0.0.1")});
  mnl_attr_nest_end(header, list);
  EXPECT_THAT(decode_members(*header, SetType::HashIpPort), IsEmpty());
}

}  // namespace
}  // namespace kernel
